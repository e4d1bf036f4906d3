"""A dataset as the notebooks see it: a manifest, its pictures, and the part of both that a task is about.

What a task may say, besides its names: ``world``, a folder with a manifest, an anchor bank and benchmarks of its own
(the miniature's if not given); ``pictures``, the root of that manifest, where $VARIABLES of the environment may stand;
``damaged``, what becomes of pictures that cannot be read: ``stop`` names the first, ``skip`` leaves all of them out and
counts them. In reading order: `open_dataset`, then what a `Dataset` gives: rows of a split, hashes and pixels of rows,
texts and benchmarks.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from ask.datasets.manifest import ManifestError, assign_splits, manifest_from_folders, read_manifest
from ask.datasets.members import Members
from ask.datasets.pictures import PictureError, Pictures, open_pictures
from ask.datasets.pixels import READERS, Pixels
from ask.paths import need, root, world

DAMAGED = ("stop", "skip")


@dataclass(frozen=True)
class Dataset:
    """Pictures and their manifest; row numbers always count in the whole manifest."""

    manifest: pd.DataFrame
    pictures: Pictures
    domain: np.ndarray  # (rows,) bool: the rows that the task is about
    notes: tuple[str, ...]  # what the reader should know, such as "one class: treated as unlabelled"
    source: str  # said under every figure: where pictures and judge come from
    home: Path  # of the anchor bank and the benchmarks

    @property
    def labelled(self) -> bool:
        """Whether the pictures that the task uses have classes; without, class metrics are skipped."""
        used = self.domain & ~self.manifest["split"].isin(["outside", ""])
        return bool((self.manifest["label"][used] != "").all())

    def rows(self, split: str) -> np.ndarray:  # (n,)
        """The task's rows of a split."""
        return np.flatnonzero(self.domain & (self.manifest["split"] == split).to_numpy())

    def find(self, paths: Iterable[str]) -> np.ndarray:  # (n,) rows in manifest order
        """The rows of these paths, whatever their domain."""
        return np.flatnonzero(self.manifest["path"].isin(set(paths)))

    def hashes(self, rows: Iterable[int]) -> dict[int, str]:
        """Row to hash of its picture."""
        return {row: self.pictures.sha256(self.manifest["path"][row]) for row in rows}

    def pixels(self, rows: np.ndarray, preprocess: Callable, device: torch.device | str = "cpu") -> Pixels:
        """What gives (n, 3, h, w) on a device for any rows; ``rows`` are decoded and preprocessed only once."""
        paths = self.manifest["path"].to_numpy()
        return Pixels(self.pictures, paths, preprocess, rows=rows, device=device)

    def anchor_texts(self) -> list[str]:  # m prompts
        """The text bank over which recognition is anchored.

        Raises:
            FileNotFoundError: if it is not there yet.
        """
        return json.loads(need(self.home / "anchor.json", "world").read_text(encoding="utf-8"))

    def benchmarks(self) -> list[dict[str, Any]]:
        """The zero-shot benchmarks whose pictures are in the manifest: name, classes, templates, paths, labels."""
        known = json.loads(need(self.home / "benchmarks.json", "world").read_text(encoding="utf-8"))
        there = set(self.manifest["path"])
        return [one for one in known if there.issuperset(one["paths"])]


def open_dataset(
    pictures: str,  # a folder or a .zip pack, absolute or from the root
    manifest: str | None,  # a table, absolute or from the root; None reads class folders
    *,
    task: Mapping[str, str],  # entry of the tasks catalogue: dataset, domain, criterion; see the module
    columns: Mapping[str, str] | None = None,  # our name -> the table's
    seed: int = 0,  # splits class folders, and tables that do not say which picture is for what
) -> Dataset:
    """Opens a dataset for a task; in a table without a ``domain`` column every row belongs to it.

    Raises:
        FileNotFoundError: if the pictures or the table are missing.
        ManifestError: if the table is empty, lacks a column, or has no row of the task's domain.
        PictureError: for a picture that cannot be read, if the task says that damaged ones are to be skipped and
            none is left.
    """
    home = root() / task["world"] if "world" in task else world()
    if "world" in task:
        pictures, manifest = _expanded(task["pictures"]), str(need(home / "manifest.csv", "data"))
    if manifest is None:
        table, notes = manifest_from_folders(root() / pictures, seed=seed)
    else:
        table, notes = read_manifest(root() / manifest, columns), []
        if (table["split"] == "").all():
            table, notes = assign_splits(table, seed=seed)
    opened = _opened(root() / pictures)
    table, left_out = _readable(table, opened, task.get("damaged", "stop"))
    domain = (
        np.full(len(table), True) if "domain" not in table else (table["domain"] == task["domain"]).to_numpy()
    )
    if not domain.any():
        known = ", ".join(sorted(set(table["domain"])))
        raise ManifestError(
            f"manifest {manifest} has no picture of the domain {task['domain']!r}; it has {known}"
        )
    own = f"pictures in {Path(pictures).name}, judged by {task['criterion']}"
    source = "miniature world, simulated judge" if task["dataset"] == "miniature" else own
    return Dataset(table, opened, domain, (*notes, *left_out), source, home)


def _expanded(path: str) -> str:
    """A path with the environment's variables filled in."""
    found = os.path.expandvars(os.path.expanduser(path))
    if "$" in found:
        raise FileNotFoundError(f"the task's pictures are in {path}, but that variable is not set; export it")
    return found


def _opened(folder: Path) -> Pictures:
    return Members(folder) if folder.is_dir() else open_pictures(folder)


def _readable(
    table: pd.DataFrame, pictures: Pictures, damaged: str
) -> tuple[pd.DataFrame, list[str]]:  # the rows that take part, and a note about others
    if damaged not in DAMAGED:
        raise ManifestError(f"damaged must be {' or '.join(DAMAGED)}, but is {damaged!r}")
    if damaged == "stop":
        return table, []

    def fits(path: str) -> bool:
        try:
            pictures.load(path)
        except PictureError:
            return False
        return True

    with ThreadPoolExecutor(READERS) as threads:
        good = np.array([*threads.map(fits, table["path"])])
    if not good.any():
        raise PictureError(f"none of {len(table)} pictures can be read; {table['path'].iloc[0]} is the first")
    bad = table["path"][~good]
    told = f"{len(bad)} of {len(table)} pictures cannot be read and are left out: {', '.join(bad[:5])}"
    return table[good].reset_index(drop=True), [told] if len(bad) else []
