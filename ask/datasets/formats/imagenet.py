"""ImageNet (ILSVRC 2012): ``train/<wnid>/*.JPEG``, and a validation part in class folders or flat.

A class is its rank among the 1,000 sorted wnids. The devkit counts classes in an order of its own; what a flat
validation picture shows is looked up through its synsets, or read from Kaggle's table.
"""

from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path

import pandas as pd
from scipy.io import loadmat

from ask.datasets.source import LayoutError, Source, below, class_folders, locate, located, pictures_in

NAME = "imagenet"
TRAIN = ("train/n[0-9]*", "images/train/n[0-9]*", "ILSVRC/Data/CLS-LOC/train/n[0-9]*")
VAL = ("val/n[0-9]*", "images/val/n[0-9]*")
FLAT = (
    "val*/ILSVRC2012_val_00000001.JPEG",
    "CLS-LOC/val/ILSVRC2012_val_00000001.JPEG",
    "ILSVRC2012_val_00000001.JPEG",
)
DOGS = slice(151, 269)  # of the sorted wnids: 118 breeds, from Chihuahua to Mexican hairless


@cache
def wnids() -> tuple[str, ...]:
    """The 1,000 wnids, sorted; the rank of one is its class."""
    file = resources.files("timm.data") / "_info" / "imagenet_synsets.txt"
    return tuple(file.read_text(encoding="utf-8").split())


@cache
def names() -> tuple[str, ...]:
    """OpenAI's name of every class; two come twice."""
    from open_clip import IMAGENET_CLASSNAMES  # a heavy import

    return tuple(IMAGENET_CLASSNAMES)


@cache
def labels() -> tuple[str, ...]:
    """OpenAI's names, made unique: where one comes twice, its wnid is added."""
    told = names()
    return tuple(n if told.count(n) == 1 else f"{n} ({w})" for n, w in zip(told, wnids(), strict=True))


def read(
    root: Path,
    parts: Iterable[str] = ("train", "val"),
    only: Iterable[str] | None = None,  # wnids; the folders of others are not looked into
) -> Source:
    """Reads what is there of the parts; a folder with one of them will do.

    Raises:
        LayoutError: if there is neither, or nothing tells what flat validation pictures show.
    """
    readers = {"train": _train, "val": _validation}
    only = None if only is None else set(only)
    tables = [table for part in parts if (table := readers[part](root, only)) is not None]
    if not tables:
        locate(NAME, root, *TRAIN, *VAL, *FLAT)
        raise LayoutError(f"{NAME}: {root} holds none of the parts {', '.join(parts)}")
    table = pd.concat(tables, ignore_index=True)
    return by_wnid(NAME, root, table)


def by_wnid(name: str, root: Path, table: pd.DataFrame) -> Source:
    """A source of pictures whose ``wnid`` is known; others may use it too.

    Raises:
        LayoutError: for a wnid that is none of the 1,000.
    """
    rank = {wnid: index for index, wnid in enumerate(wnids())}
    if strays := sorted(set(table["wnid"]) - set(rank)):
        raise LayoutError(f"{name}: {strays[0]} in {root} is none of ImageNet's 1,000 classes; take it out")
    index = table["wnid"].map(rank)
    return Source(name, root, table.assign(label=index.map(dict(enumerate(labels()))), index=index), labels())


def _train(root: Path, only: set[str] | None) -> pd.DataFrame | None:
    found = located(root, *TRAIN)
    if not found:
        return None
    table = class_folders(root, found.parent, only)
    return table.rename(columns={"folder": "wnid"}).assign(part="train")


def _validation(root: Path, only: set[str] | None) -> pd.DataFrame | None:
    if found := located(root, *VAL):
        table = class_folders(root, found.parent, only).rename(columns={"folder": "wnid"})
    elif found := located(root, *FLAT):
        told = _told(root)
        rows = [
            (below(root, found.parent / file), told[Path(file).stem]) for file in pictures_in(found.parent)
        ]
        table = pd.DataFrame(rows, columns=["path", "wnid"])
        table = table if only is None else table[table["wnid"].isin(only)]
    else:
        return None
    return table.assign(part="val")


def _told(root: Path) -> dict[str, str]:
    """Validation picture -> wnid, from whichever file there is."""
    if kaggle := located(root, "LOC_val_solution.csv"):
        table = pd.read_csv(kaggle, dtype=str)
        return dict(zip(table["ImageId"], table["PredictionString"].str.split().str[0], strict=True))
    kit = locate(NAME, root, "LOC_val_solution.csv", "ILSVRC2012_devkit_t12/data/meta.mat", "data/meta.mat")
    synsets = loadmat(kit, squeeze_me=True, struct_as_record=False)["synsets"]
    leaves = {int(one.ILSVRC2012_ID): str(one.WNID) for one in synsets if int(one.num_children) == 0}
    truth = (kit.parent / "ILSVRC2012_validation_ground_truth.txt").read_text(encoding="ascii").split()
    return {f"ILSVRC2012_val_{n:08d}": leaves[int(one)] for n, one in enumerate(truth, 1)}
