"""ImageNet-O: ``<wnid>/*.JPEG`` of 200 of ImageNet's classes, the class being the rank among these.

Its pictures show none of the 1,000 classes; the folder is what a classifier mistook them for, so a better one has the
lower accuracy. It is reported as others do.
"""

from functools import cache
from importlib import resources
from pathlib import Path

from ask.datasets.formats.imagenet import labels, wnids
from ask.datasets.source import LayoutError, Source, class_folders, locate

NAME = "imagenet-o"


@cache
def members() -> tuple[str, ...]:
    """The 200 wnids, sorted."""
    file = resources.files("ask.datasets.formats") / "imagenet_o.txt"
    return tuple(file.read_text(encoding="ascii").split())


def read(root: Path) -> Source:
    """Reads all of it; it is a test set as a whole.

    Raises:
        LayoutError: for a folder of another class, which ImageNet itself would have.
    """
    first = locate(NAME, root, "imagenet-o/n[0-9]*", "n[0-9]*")
    table = class_folders(root, first.parent).rename(columns={"folder": "wnid"})
    if strays := sorted(set(table["wnid"]) - set(members())):
        raise LayoutError(
            f"{NAME}: {strays[0]} in {root} is none of its 200 classes; is this ImageNet itself?"
        )
    named = dict(zip(wnids(), labels(), strict=True))
    index = table["wnid"].map({wnid: rank for rank, wnid in enumerate(members())})
    table = table.assign(label=table["wnid"].map(named), index=index, part="test")
    return Source(NAME, root, table, tuple(named[wnid] for wnid in members()))
