"""Which of the paper's datasets lie below a folder: every reader is shown every subfolder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ask.datasets.formats import READERS, read
from ask.datasets.manifest import HIDDEN
from ask.datasets.source import LayoutError, Source, start

# A webdataset copy stands for a benchmark by the name of its folder.
COPIES = {
    "wds_vtab-cifar10": "cifar10",
    "wds_vtab-cifar100": "cifar100",
    "wds_vtab-caltech101": "caltech101",
    "wds_fer2013": "fer2013",
    "wds_vtab-pets": "pets",
    "wds_vtab-dtd": "dtd",
    "wds_vtab-resisc45": "resisc45",
    "wds_vtab-eurosat": "eurosat",
    "wds_vtab-pcam": "pcam",
    "wds_imagenet_sketch": "imagenet_sketch",
    "wds_imagenet-o": "imagenet_o",
    "wds_imagenet1k": "imagenet",
}
ANY = ("webdataset",)  # readers of whatever is laid out like this
PATHS = ("path", "mask")  # columns of a source's table that hold paths


@dataclass(frozen=True)
class Found:
    """What is in one subfolder.

    Attributes:
        dataset: the reader that knows it, or empty.
        problem: why it cannot be used, if it looks like a dataset but is not complete.
    """

    folder: Path
    dataset: str = ""
    source: Source | None = None
    problem: str = ""


def recognise(root: Path | str) -> list[Found]:
    """One answer per subfolder, in the order of their names; paths are relative to the root.

    Raises:
        LayoutError: if there is no such folder.
    """
    root = Path(root).resolve()
    if not root.is_dir():
        raise LayoutError(f"there is no folder {root}; give the one that holds the datasets")
    folders = sorted(one for one in root.iterdir() if one.is_dir() and not one.name.startswith(HIDDEN))
    return [_recognise(root, folder) for folder in folders]


def by_dataset(found: Sequence[Found]) -> dict[str, Found]:
    """What is usable, by dataset.

    Raises:
        LayoutError: if one dataset is in two folders; nothing says which is meant.
    """
    chosen: dict[str, Found] = {}
    for one in found:
        if not one.source or one.dataset in ANY:
            continue
        if one.dataset in chosen:
            both = f"{chosen[one.dataset].folder.name} and {one.folder.name}"
            raise LayoutError(f"{one.dataset} must be in one folder, but is in {both}; move one of them away")
        chosen[one.dataset] = one
    return chosen


def copied(found: Found) -> str:
    """The benchmark that a webdataset copy stands for, or empty."""
    home = found.source.name if found.source and found.dataset == "webdataset" else ""
    return COPIES.get(home, "")


def _recognise(root: Path, folder: Path) -> Found:
    problem = ""
    for reader in READERS:
        try:
            source = read(reader, folder)
        except LayoutError as error:
            # What a reader looked for first is not there: some other dataset. Anything else is this one, broken.
            problem = problem or ("" if "looked for" in str(error) else str(error))
            continue
        moved = {name: start(root, folder) + source.table[name] for name in PATHS if name in source.table}
        return Found(folder, reader, replace(source, root=root, table=source.table.assign(**moved)))
    return Found(folder, problem=problem)
