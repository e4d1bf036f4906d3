"""NWPU-RESISC45: ``<class>/<class>_NNN.jpg``, 700 each; no published parts.

VTAB's test part is the last fifth in TFDS's order and cannot be told from the folders; a webdataset copy has it.
"""

from pathlib import Path

from ask.datasets.formats.folders import read_folders
from ask.datasets.source import Source, locate

NAME = "resisc45"


def read(root: Path) -> Source:
    """Reads every picture; the class is the folder (railway and railway_station share the start of their names)."""
    home = locate(NAME, root, "NWPU-RESISC45/airplane", "airplane").parent
    classes = sorted(one.name for one in home.iterdir() if one.is_dir() and not one.name.startswith("."))
    return read_folders(NAME, root, home, classes, label=lambda folder: folder.replace("_", " "))
