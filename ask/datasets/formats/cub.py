"""CUB-200-2011: birds, and what people saw of 312 attributes in each (ASK, D.5).

All numbers of its tables count from 1, and 1 in ``train_test_split.txt`` is *training*. Of the attribute table only
the first four fields of a line are used: some lines have fields too many before the last.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ask.datasets.source import LayoutError, Source, locate, start
from ask.relevance import Annotated, jaccard

NAME = "cub"
ATTRIBUTES = 312
CRITERIA = {"wing colour": "wing_color", "bill shape": "bill_shape", "breast pattern": "breast_pattern"}
CERTAIN = 3  # probably; 4 is definitely, 2 guessing, 1 not visible


def read(root: Path) -> Source:
    """Reads pictures, species and the official parts; ``image`` is the number that the attribute table uses."""
    home = locate(NAME, root, "CUB_200_2011/images.txt", "images.txt").parent
    images = _columns(home / "images.txt", "image", "file")
    species = _columns(home / "image_class_labels.txt", "image", "species")
    parts = _columns(home / "train_test_split.txt", "image", "training")
    names = _columns(home / "classes.txt", "species", "name")
    classes = tuple(_words(name) for name in names["name"])
    table = images.merge(species, on="image", validate="1:1").merge(parts, on="image", validate="1:1")
    if len(table) != len(images):
        raise LayoutError(f"{NAME}: the tables of {home} are about different pictures; fetch it again")
    index = table["species"].astype(int) - 1
    told = pd.DataFrame(
        {
            "path": start(root, home / "images") + table["file"],
            "label": index.map(dict(enumerate(classes))),
            "index": index,
            "part": table["training"].map({"1": "train", "0": "test"}),
            "image": table["image"].astype(int),
        }
    )
    return Source(NAME, root, told, classes)


@dataclass(frozen=True)
class Seen:
    """What was seen of one attribute, such as wing colour.

    Attributes:
        values: names of the attribute's values.
        present: (n, values) whether each value was seen with enough certainty, a row per picture of the source.
    """

    values: tuple[str, ...]
    present: np.ndarray


def seen(source: Source, criterion: str, certainty: int = CERTAIN) -> Seen:
    """What people saw of a criterion's attribute.

    Raises:
        LayoutError: for a criterion that the data does not have, or a table that is not complete.
    """
    if criterion not in CRITERIA:
        raise LayoutError(f"{NAME} has no criterion {criterion!r}; it has {', '.join(CRITERIA)}")
    names = _attributes(source.root)
    start = f"has_{CRITERIA[criterion]}::"
    chosen = [number for number, name in names.items() if name.startswith(start)]
    present = _table(source.root, source.table["image"].to_numpy(), len(names), certainty)
    values = tuple(names[number].removeprefix(start) for number in chosen)
    return Seen(values, present[:, [number - 1 for number in chosen]])


def attributes(
    source: Source,
    criterion: str,
    *,
    part: str = "test",
    species: np.ndarray | None = None,  # indices of species that may take part; all if not given
    certainty: int = CERTAIN,
) -> Annotated:
    """Pictures in which the attribute was seen, and the overlap of its values; galleries of other species.

    Raises:
        LayoutError: like `seen`.
    """
    present = seen(source, criterion, certainty).present
    index = source.table["index"].to_numpy()
    chosen = (source.table["part"] == part).to_numpy() & present.any(1)
    rows = np.flatnonzero(chosen if species is None else chosen & np.isin(index, species))
    other = index[rows][:, None] != index[rows][None, :]
    return Annotated(rows, jaccard(present[rows]), other, source.table["label"].to_numpy()[rows])


def _table(root: Path, images: np.ndarray, attributes: int, certainty: int) -> np.ndarray:  # (n, attributes)
    file = locate(NAME, root, "attributes/image_attribute_labels.txt")
    told = pd.read_csv(file, sep=" ", header=None, usecols=range(4), dtype=np.int32)
    told.columns = ["image", "attribute", "present", "certainty"]
    if len(told) != len(images) * attributes:
        raise LayoutError(
            f"{file} has {len(told)} lines for {len(images)} pictures of {attributes} attributes"
        )
    row = pd.Series(np.arange(len(images)), index=images)
    present = np.zeros((len(images), attributes), bool)
    sure = told[(told["present"] == 1) & (told["certainty"] >= certainty)]
    present[row[sure["image"]], sure["attribute"] - 1] = True
    return present


def _attributes(root: Path) -> dict[int, str]:
    """Names of attributes by number; the file lies beside the data set or in it."""
    file = locate(NAME, root, "attributes.txt", "attributes/attributes.txt")
    told = _columns(file, "number", "name")
    return dict(zip(told["number"].astype(int), told["name"], strict=True))


def _columns(file: Path, first: str, second: str) -> pd.DataFrame:
    """A table of a number and a word per line."""
    if not file.is_file():
        raise LayoutError(f"{NAME}: {file} is missing; fetch the archive again")
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return pd.DataFrame([line[:2] for line in lines], columns=[first, second])


def _words(name: str) -> str:
    """``001.Black_footed_Albatross`` as "Black footed Albatross"."""
    return name.partition(".")[2].replace("_", " ")
