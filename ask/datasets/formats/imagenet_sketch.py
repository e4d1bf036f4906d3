"""ImageNet-Sketch: ``sketch/<wnid>/sketch_N.JPEG``; the class is the rank among all 1,000 wnids."""

from pathlib import Path

from ask.datasets.formats.imagenet import by_wnid
from ask.datasets.source import Source, class_folders, locate

NAME = "imagenet-sketch"


def read(root: Path) -> Source:
    """Reads all of it; it is a test set as a whole."""
    first = locate(NAME, root, "sketch/n[0-9]*", "images/n[0-9]*")
    table = class_folders(root, first.parent).rename(columns={"folder": "wnid"})
    return by_wnid(NAME, root, table.assign(part="test"))
