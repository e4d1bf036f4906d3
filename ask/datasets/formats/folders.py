"""What the readers of plain class folders have in common."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ask.datasets.source import LayoutError, Source, class_folders


def read_folders(
    name: str,
    root: Path,
    home: Path,  # holds the class folders
    classes: Sequence[str],  # folder names, in the order of the classes
    *,
    label: Callable[[str], str],  # folder -> label
    part: str = "",
) -> Source:
    """A source whose class is the folder.

    Raises:
        LayoutError: for a folder that is none of the classes, since a shifted order would look plausible.
    """
    table = class_folders(root, home)
    rank = {folder: index for index, folder in enumerate(classes)}
    if strays := sorted(set(table["folder"]) - set(rank)):
        raise LayoutError(
            f"{name}: the folder {strays[0]} in {home} is none of its {len(rank)} classes; take it out"
        )
    index = table["folder"].map(rank)
    table = table.assign(label=table.pop("folder").map(label), index=index, part=part)
    return Source(name, root, table, tuple(map(label, classes)))
