"""A dataset as its authors ship it: every picture with its class, and nothing decided about what it is for.

`Source` is what every reader in ``formats`` returns. In reading order: `Source`, then how readers find their way in a
folder: `locate`, `located`, `start`, `class_folders`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ask.datasets.manifest import HIDDEN, SUFFIXES, ManifestError
from ask.datasets.pictures import check_inside

DEEPER = ("", "*/", "*/*/")  # archives unpacked into a folder of their own, and copies of copies
LISTED = 8  # names that an error shows of a folder


@dataclass(frozen=True)
class Source:
    """The pictures of one dataset.

    Attributes:
        table: one row per picture: ``path`` (below the root), ``label``, ``index`` (of the class, from 0, in the
            order that benchmarks use), ``part`` (train, val, test as the authors published them, or empty),
            ``coop`` (the same by CoOp's split file, where there is one), and whatever else the authors tell.
        classes: the label of every index, also of classes without a picture here.
    """

    name: str
    root: Path
    table: pd.DataFrame
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        for path in self.table["path"]:
            check_inside(path)
        if (repeated := self.table["path"].duplicated()).any():
            raise LayoutError(
                f"{self.name} lists {self.table['path'][repeated].iloc[0]} twice in {self.root}"
            )

    @property
    def manifest(self) -> pd.DataFrame:  # path, label, split, and every other column
        """The table in the form that every dataset has; the split is still empty."""
        first = self.table[["path", "label"]].assign(split="")
        return first.join(self.table.drop(columns=["path", "label"]))


class LayoutError(ManifestError):
    """A folder does not hold the dataset in any layout that is known; the message says what was looked for."""


def locate(dataset: str, root: Path, *names: str) -> Path:
    """The first of some relative paths, patterns allowed, that exists in a folder or up to two folders below.

    Raises:
        LayoutError: naming what was looked for and what is there.
    """
    if found := located(root, *names):
        return found
    if not root.is_dir():
        raise LayoutError(f"{dataset}: there is no folder {root}; give the one that holds the dataset")
    there = sorted(path.name for path in root.iterdir() if not path.name.startswith(HIDDEN))
    shown = ", ".join(there[:LISTED]) + (", ..." if len(there) > LISTED else "") if there else "nothing"
    wanted = " or ".join(names)
    raise LayoutError(
        f"{dataset}: looked for {wanted} in {root} and up to two folders below, and found {shown} there; give the "
        "folder that holds it"
    )


def located(root: Path, *names: str) -> Path | None:
    """Like `locate`, but None if there is no such thing."""
    for deeper in DEEPER:
        for name in names:
            for path in sorted(root.glob(deeper + name)):
                if not any(part.startswith(HIDDEN) for part in path.relative_to(root).parts):
                    return path
    return None


def below(root: Path, path: Path) -> str:
    """A path as a manifest writes it."""
    return path.relative_to(root).as_posix()


def start(root: Path, folder: Path) -> str:
    """How the paths of a folder's files begin: its own path and a slash, or nothing for the root itself."""
    return "" if folder == root else f"{below(root, folder)}/"


def class_folders(
    root: Path,
    folder: Path,  # holds one folder per class
    only: Iterable[str] | None = None,  # names of class folders; all if not given
) -> pd.DataFrame:  # path, folder
    """The pictures of a folder of class folders, by name; hidden files and what is no picture are passed over."""
    wanted = None if only is None else set(only)
    names = sorted(
        one.name
        for one in os.scandir(folder)
        if one.is_dir() and not one.name.startswith(HIDDEN) and (wanted is None or one.name in wanted)
    )
    home = start(root, folder)
    rows = [(f"{home}{name}/{file}", name) for name in names for file in pictures_in(folder / name)]
    return pd.DataFrame(rows, columns=["path", "folder"])


def pictures_in(folder: Path) -> list[str]:
    """The names of the pictures that lie right in a folder."""
    return sorted(
        one.name
        for one in os.scandir(folder)
        if os.path.splitext(one.name)[1].lower() in SUFFIXES and not one.name.startswith(HIDDEN)
    )
