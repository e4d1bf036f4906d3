"""EuroSAT in RGB: ``2750/<Class>/<Class>_<n>.jpg`` (or ``EuroSAT_RGB``), numbers without zeros; no published parts.

VTAB's test part is the last fifth in TFDS's order and cannot be told from the folders; a webdataset copy has it.
"""

from dataclasses import replace
from pathlib import Path

from ask.datasets.formats.coop import add_split
from ask.datasets.formats.folders import read_folders
from ask.datasets.source import Source, locate, located

NAME = "eurosat"
CLASSES = (
    "AnnualCrop",
    "Forest",
    "HerbaceousVegetation",
    "Highway",
    "Industrial",
    "Pasture",
    "PermanentCrop",
    "Residential",
    "River",
    "SeaLake",
)


def read(root: Path) -> Source:
    """Reads every picture; CoOp's part is in ``coop``."""
    home = locate(
        NAME, root, *(f"{name}/AnnualCrop" for name in ("2750", "EuroSAT_RGB", "EuroSAT")), "AnnualCrop"
    )
    source = read_folders(NAME, root, home.parent, CLASSES, label=_words)
    split = located(root, "split_zhou_EuroSAT.json")
    return replace(source, table=add_split(source.table, split, lambda path: "/".join(path.split("/")[-2:])))


def _words(folder: str) -> str:
    """``AnnualCrop`` as "annual crop"."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in folder).strip()
