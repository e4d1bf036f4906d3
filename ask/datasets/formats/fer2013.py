"""FER2013: a table of 48 x 48 grey values, or class folders.

The table counts emotions in an order of its own (neutral last), the folders and the names that benchmarks use are in
alphabetical order, which is the one here. The test part is both of the table's.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from ask.datasets.formats.folders import read_folders
from ask.datasets.source import LayoutError, Source, below, locate, located

NAME = "fer2013"
SIDE = 48
CLASSES = ("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise")
OF_TABLE = ("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral")
USAGE = {"Training": "train", "PublicTest": "test", "PrivateTest": "test"}


def read(root: Path) -> Source:
    """Reads the table where there is one; ``usage`` tells the two test parts apart."""
    if not located(root, "fer2013.csv", "icml_face_data.csv"):
        return _folders(root)
    file = located(root, "fer2013.csv") or locate(NAME, root, "icml_face_data.csv")
    told = pd.read_csv(file, skipinitialspace=True, usecols=["emotion", "Usage"], dtype=str)
    if strays := sorted(set(told["Usage"].dropna()) - set(USAGE)) or told["Usage"].isna().any():
        raise LayoutError(
            f"{file} has rows that are none of {', '.join(USAGE)} ({strays}); it is a broken copy"
        )
    label = told["emotion"].astype(int).map(dict(enumerate(OF_TABLE)))
    table = pd.DataFrame(
        {
            "path": [f"{below(root, file)}/{row}" for row in range(len(told))],
            "label": label,
            "index": label.map({name: index for index, name in enumerate(CLASSES)}),
            "part": told["Usage"].map(USAGE),
            "usage": told["Usage"],
        }
    )
    return Source(NAME, root, table, CLASSES)


def _folders(root: Path) -> Source:
    home = locate(NAME, root, "fer2013.csv", "icml_face_data.csv", "test/sad").parent.parent
    parts = [
        read_folders(NAME, root, home / part, CLASSES, label=str, part=part).table
        for part in ("train", "test")
        if (home / part).is_dir()
    ]
    table = pd.concat(parts, ignore_index=True)
    return Source(NAME, root, table, CLASSES)


def pictures(file: Path) -> np.ndarray:  # (n, 48, 48) uint8
    """The pixels of the whole table."""
    values = pd.read_csv(file, skipinitialspace=True, usecols=["pixels"])["pixels"]
    rows = [np.fromstring(one, np.int64, sep=" ") for one in values]
    if wrong := [n for n, row in enumerate(rows) if row.shape != (SIDE * SIDE,) or row.max() > 255]:
        raise LayoutError(
            f"row {wrong[0]} of {file} is no picture of {SIDE} x {SIDE} grey values; fetch it again"
        )
    return np.stack(rows).reshape(-1, SIDE, SIDE).astype(np.uint8)


def opened(file: Path) -> Callable[[str], Image.Image]:
    """What gives the pictures of a table by their row."""
    pixels = pictures(file)
    return lambda row: Image.fromarray(pixels[int(row)])
