"""PatchCamelyon: ``camelyonpatch_level_2_split_{train,valid,test}_{x,y}.h5``, pictures and labels in HDF5.

A picture's path is its file and its place in it. The validation part is called valid in file names. Labels may still
be packed (.h5.gz), pictures not: they are read one at a time.
"""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from PIL import Image

from ask.datasets.source import LayoutError, Source, below, locate, located

NAME = "pcam"
CLASSES = ("lymph node", "lymph node containing metastatic tumor tissue")
PARTS = {"train": "train", "valid": "val", "test": "test"}
FILE = "camelyonpatch_level_2_split_{}_{}.h5"


def read(root: Path) -> Source:
    """Reads the labels of every part whose pictures are there."""
    present = [part for part in PARTS if located(root, FILE.format(part, "x"))]
    if not present:
        packed = located(root, FILE.format("test", "x") + ".gz")
        if packed:
            raise LayoutError(f"{NAME}: unpack {packed} first (gunzip); its pictures are read one at a time")
        locate(NAME, root, FILE.format("test", "x"))
    table = pd.concat([_part(root, part) for part in present], ignore_index=True)
    return Source(NAME, root, table.assign(label=table["index"].map(dict(enumerate(CLASSES)))), CLASSES)


def labels(file: Path) -> np.ndarray:  # (n,) of 0 and 1
    """The labels of a part, packed or not."""
    opened = io.BytesIO(gzip.decompress(file.read_bytes())) if file.suffix == ".gz" else file
    with _h5py().File(opened, "r") as told:
        return told["y"][()].ravel().astype(np.int64)


def opened(file: Path) -> Callable[[str], Image.Image]:
    """What gives the pictures of a part by their number; each is read when it is asked for."""

    def load(number: str) -> Image.Image:
        with _h5py().File(file, "r") as told:
            return Image.fromarray(told["x"][int(number)])

    return load


def _part(root: Path, part: str) -> pd.DataFrame:
    pictures = locate(NAME, root, FILE.format(part, "x"))
    index = labels(locate(NAME, root, FILE.format(part, "y"), FILE.format(part, "y") + ".gz"))
    with _h5py().File(pictures, "r") as told:
        if len(told["x"]) != len(index):
            raise LayoutError(
                f"{pictures} holds {len(told['x'])} pictures for {len(index)} labels; fetch both again"
            )
    paths = [f"{below(root, pictures)}/{n}" for n in range(len(index))]
    return pd.DataFrame({"path": paths, "index": index, "part": PARTS[part]})


def _h5py() -> ModuleType:
    try:
        import h5py
    except ModuleNotFoundError:
        raise LayoutError("PCam needs h5py; install it with pip install 'ask[datasets]'") from None
    return h5py
