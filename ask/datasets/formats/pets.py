"""Oxford-IIIT Pets: ``images/<Breed_name>_<n>.jpg``, and lists that say class and part.

Some pictures are GIFs or PNGs under a .jpg name, three files of ``images`` are none, and the header of ``list.txt``
has cats and dogs the wrong way round; only the lists' rows are believed.
"""

from pathlib import Path

import pandas as pd

from ask.datasets.formats.coop import add_split
from ask.datasets.source import LayoutError, Source, locate, located, start

NAME = "pets"
SPECIES = {1: "cat", 2: "dog"}
LISTS = {"train": "trainval.txt", "val": None, "test": "test.txt"}


def read(root: Path) -> Source:
    """Reads the lists; ``species`` is a column."""
    lists = locate(NAME, root, "annotations/trainval.txt").parent
    images = locate(NAME, root, "images/*_1.jpg", "images/*.jpg").parent
    parts = [_read_list(lists / file).assign(part=part) for part, file in LISTS.items() if file]
    table = pd.concat(parts, ignore_index=True)
    table["path"] = start(root, images) + table.pop("name") + ".jpg"
    named = dict(zip(table["index"], table["label"], strict=True))
    classes = tuple(named.get(index, "") for index in range(max(named) + 1))
    table = add_split(table, located(root, "split_zhou_OxfordPets.json"), lambda path: Path(path).name)
    return Source(NAME, root, table, classes)


def _read_list(file: Path) -> pd.DataFrame:  # name, label, index, species
    lines = [
        line.split() for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    rows = []
    for line in filter(None, lines):
        if len(line) != 4:
            raise LayoutError(f"{file} has the line {' '.join(line)!r}; wanted are a name and three numbers")
        name, number, species, _ = line
        label = name.rpartition("_")[0].replace("_", " ").lower()
        rows.append((name, label, int(number) - 1, SPECIES[int(species)]))
    return pd.DataFrame(rows, columns=["name", "label", "index", "species"])
