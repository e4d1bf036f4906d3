"""Oxford Flowers 102: ``jpg/image_NNNNN.jpg``, classes in ``imagelabels.mat``, parts in ``setid.mat``, both from 1.

The official test part is the large one.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ask.datasets.formats.coop import add_split, read_split
from ask.datasets.source import LayoutError, Source, locate, located, start

NAME = "flowers"
PARTS = {"trnid": "train", "valid": "val", "tstid": "test"}


def read(root: Path) -> Source:
    """Reads everything; names of classes are from ``cat_to_name.json`` or CoOp's split.

    Raises:
        LayoutError: if neither tells the names.
    """
    labels = loadmat(locate(NAME, root, "imagelabels.mat"))["labels"].ravel().astype(np.int64)
    images = start(root, locate(NAME, root, "jpg/image_00001.jpg").parent)
    parts = loadmat(locate(NAME, root, "setid.mat"))
    part = {int(n): name for key, name in PARTS.items() for n in parts[key].ravel()}
    split = located(root, "split_zhou_OxfordFlowers.json")
    names = _names(root, split)
    if missing := sorted(set(labels - 1) - set(names)):
        raise LayoutError(f"{NAME}: class {missing[0] + 1} in {root} has no name; add cat_to_name.json")
    numbers = range(1, len(labels) + 1)
    table = pd.DataFrame(
        {
            "path": [f"{images}image_{n:05d}.jpg" for n in numbers],
            "label": [names[index] for index in labels - 1],
            "index": labels - 1,
            "part": [part.get(n, "") for n in numbers],
        }
    )
    table = add_split(table, split, lambda path: Path(path).name)
    return Source(NAME, root, table, tuple(names.get(index, "") for index in range(max(names) + 1)))


def _names(root: Path, split: Path | None) -> dict[int, str]:  # index from 0 -> name
    if file := located(root, "cat_to_name.json"):
        told = json.loads(file.read_text(encoding="utf-8"))
        return {int(number) - 1: name for number, name in told.items()}
    if split:
        told = read_split(split)
        return dict(zip(told["index"], told["name"], strict=True))
    locate(NAME, root, "cat_to_name.json", "split_zhou_OxfordFlowers.json")
    return {}
