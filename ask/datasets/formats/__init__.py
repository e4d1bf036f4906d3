"""Readers of the datasets that ASK uses, one per on-disk format, each from a folder to a `Source`.

They are written against the files as their authors and the usual copies ship them; nothing is downloaded, no picture
is opened, and no split is made. `READERS` is the list of them.
"""

from importlib import import_module
from pathlib import Path

from ask.datasets.source import Source

READERS = (
    "imagenet",
    "imagenet_sketch",
    "imagenet_o",
    "pets",
    "dtd",
    "cars",
    "flowers",
    "cifar10",
    "cifar100",
    "caltech101",
    "fer2013",
    "resisc45",
    "eurosat",
    "pcam",
    "cub",
    "pascal3d",
    "cocostuff",
    "ap10k",
    "webdataset",
)


def read(dataset: str, root: Path | str) -> Source:
    """Reads a dataset by its name.

    Raises:
        LayoutError: for a name that no reader has, or a folder that does not hold the dataset.
    """
    from ask.datasets.source import LayoutError

    if dataset not in READERS:
        raise LayoutError(f"no reader is called {dataset!r}; known are {', '.join(READERS)}")
    return import_module(f"ask.datasets.formats.{dataset}").read(Path(root).resolve())
