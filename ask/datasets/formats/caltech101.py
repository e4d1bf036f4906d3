"""Caltech-101: ``101_ObjectCategories/<class>/image_NNNN.jpg``, background and easy faces included: 102 classes.

Classes are in the order of TFDS and of VTAB, lower-case names sorted. Two lists of names are about, in two orders; a
mix-up looks like chance. The test part of VTAB is TFDS's and cannot be told from the folders; a webdataset copy has it.
"""

from dataclasses import replace
from pathlib import Path

from ask.datasets.formats.coop import add_split
from ask.datasets.formats.folders import read_folders
from ask.datasets.source import Source, locate, located

NAME = "caltech101"


def read(root: Path) -> Source:
    """Reads every picture; CoOp's part, of 100 classes in another order, is in ``coop``."""
    home = locate(NAME, root, "101_ObjectCategories/*/image_0001.jpg").parent.parent
    folders = sorted((one.name for one in home.iterdir() if one.is_dir()), key=str.lower)
    source = read_folders(NAME, root, home, folders, label=lambda folder: folder.replace("_", " "))
    split = located(root, "split_zhou_Caltech101.json")
    return replace(source, table=add_split(source.table, split, lambda path: "/".join(path.split("/")[-2:])))
