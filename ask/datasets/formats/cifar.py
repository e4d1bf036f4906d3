"""What both CIFARs have in common: pickles of Python 2, opened without running what a pickle may run."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from ask.datasets.source import LayoutError, Source, below, locate

SIDE = 32
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArraysOnly(pickle.Unpickler):
    """Knows three names, of which an array is made, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs") from None


def load_batch(file: Path) -> dict[str, Any]:
    """The contents of one pickle.

    Raises:
        LayoutError: if it is none, or one that asks for more than arrays.
    """
    try:
        with file.open("rb") as stream:
            return _ArraysOnly(stream, encoding="latin1").load()
    except Exception as error:  # a damaged pickle raises whatever its bytes provoke
        raise LayoutError(f"{file} is no CIFAR file ({error}); fetch it again") from error


def read_batches(
    name: str,
    root: Path,
    meta: str,  # file with the names
    batches: dict[str, list[str]],  # part -> files
    *,
    labels: str,  # keys in the pickles
    names: str,
) -> Source:
    """A source whose paths are ``<batch file>/<number>``."""
    home = locate(name, root, f"cifar-10-batches-py/{meta}", f"cifar-100-python/{meta}", meta).parent
    classes = tuple(one.replace("_", " ") for one in load_batch(home / meta)[names])
    parts = []
    for part, files in batches.items():
        for file in files:
            if not (home / file).is_file():
                raise LayoutError(f"{name}: {home / file} is missing; fetch the archive again")
            index = np.asarray(load_batch(home / file)[labels])
            paths = [f"{below(root, home / file)}/{n}" for n in range(len(index))]
            parts.append(pd.DataFrame({"path": paths, "index": index, "part": part}))
    table = pd.concat(parts, ignore_index=True)
    return Source(name, root, table.assign(label=table["index"].map(dict(enumerate(classes)))), classes)


def pictures(file: Path) -> np.ndarray:  # (n, 32, 32, 3) uint8
    """The pixels of a batch: red, green and blue plane one after the other in the file."""
    planes = np.asarray(load_batch(file)["data"]).reshape(-1, 3, SIDE, SIDE)
    return planes.transpose(0, 2, 3, 1)


def opened(file: Path) -> Callable[[str], Image.Image]:
    """What gives the pictures of a batch by their number."""
    pixels = pictures(file)
    return lambda number: Image.fromarray(pixels[int(number)])
