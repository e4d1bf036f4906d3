"""Stanford Cars: ``cars_train`` and ``cars_test``, classes and boxes in MATLAB files.

The devkit's own file of the test part has no classes; they are in ``cars_test_annos_withlabels.mat``. Another release
is one folder ``car_ims`` with ``cars_annos.mat``. Copies in class folders have other file names than any of these
files and are refused.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ask.datasets.formats.coop import add_split
from ask.datasets.source import LayoutError, Source, locate, located, start

NAME = "cars"
BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def read(root: Path) -> Source:
    """Reads both parts; the box of the car is in the columns x1, y1, x2, y2."""
    if joint := located(root, "cars_annos.mat"):
        return _joint(root, joint)
    if not located(root, "cars_train_annos.mat", "devkit/cars_train_annos.mat") and located(
        root, "train/*/*.jpg"
    ):
        raise LayoutError(
            f"{NAME}: {root} is a copy in class folders, whose file names fit no published list; get the one with "
            "cars_train, cars_test and devkit"
        )
    classes = _classes(locate(NAME, root, "devkit/cars_meta.mat", "cars_meta.mat"))
    train = locate(NAME, root, "devkit/cars_train_annos.mat", "cars_train_annos.mat")
    test = locate(NAME, root, "cars_test_annos_withlabels*.mat", "devkit/cars_test_annos_withlabels*.mat")
    parts = [_part(root, "cars_train", train, "train"), _part(root, "cars_test", test, "test")]
    table = pd.concat(parts, ignore_index=True)
    table["label"] = table["index"].map(dict(enumerate(classes)))
    split = located(root, "split_zhou_StanfordCars.json")
    table = add_split(table, split, _coop_key)
    return Source(NAME, root, table, classes)


def year_first(name: str) -> str:
    """A class as CoOp calls it: "2012 Acura RL Sedan" for "Acura RL Sedan 2012"."""
    model, _, year = name.rpartition(" ")
    return f"{year} {model}"


def _coop_key(path: str) -> str:
    """``cars_test/00001.jpg``, however deep a copy nests it."""
    *folders, file = path.split("/")
    return f"{next(one for one in reversed(folders) if one.startswith('cars_'))}/{file}"


def _classes(file: Path) -> tuple[str, ...]:
    return tuple(str(one[0]) for one in loadmat(file)["class_names"].ravel())


def _part(root: Path, folder: str, file: Path, part: str) -> pd.DataFrame:
    images = locate(NAME, root, f"{folder}/{folder}/00001.jpg", f"{folder}/00001.jpg").parent
    told = loadmat(file)["annotations"].ravel()
    if "class" not in told.dtype.names:
        raise LayoutError(f"{file} says no classes; put cars_test_annos_withlabels.mat beside it")
    return pd.DataFrame(
        {
            "path": [f"{start(root, images)}{one['fname'].item()}" for one in told],
            "index": [int(one["class"].item()) - 1 for one in told],
            "part": part,
            **_boxes(told),
        }
    )


def _boxes(told: np.ndarray) -> dict[str, list[int]]:
    """As plain integers; the files mix 8 and 16 bits, which overflow when subtracted."""
    return {name.removeprefix("bbox_"): [int(one[name].item()) for one in told] for name in BOX}


def _joint(root: Path, file: Path) -> Source:
    """The release in one folder, whose pictures have six digits."""
    told = loadmat(file)
    classes = tuple(str(one[0]) for one in told["class_names"].ravel())
    rows = told["annotations"].ravel()
    images = locate(NAME, root, "car_ims/000001.jpg").parent
    table = pd.DataFrame(
        {
            "path": [f"{start(root, images)}{Path(one['relative_im_path'].item()).name}" for one in rows],
            "index": [int(one["class"].item()) - 1 for one in rows],
            "part": ["test" if int(one["test"].item()) else "train" for one in rows],
            **_boxes(rows),
        }
    )
    note = "this release numbers its pictures differently, so CoOp's split cannot be joined to it"
    return Source(
        NAME, root, table.assign(label=table["index"].map(dict(enumerate(classes)))), classes, (note,)
    )
