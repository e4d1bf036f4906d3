"""A dataset as the notebooks see it: a manifest, its pictures, and the part of both that a task is about.

In reading order: `open_dataset`, then what a `Dataset` gives: rows of a split, hashes and pixels of rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ask.datasets.manifest import ManifestError, assign_splits, manifest_from_folders, read_manifest
from ask.datasets.pictures import Pictures, open_pictures
from ask.paths import root


@dataclass(frozen=True)
class Dataset:
    """Pictures and their manifest; row numbers always count in the whole manifest."""

    manifest: pd.DataFrame
    pictures: Pictures
    domain: np.ndarray  # (rows,) bool: the rows that the task is about
    notes: tuple[str, ...]  # what the reader should know, such as "one class: treated as unlabelled"
    source: str  # said under every figure: where pictures and judge come from

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

    def pixels(self, rows: np.ndarray, preprocess: Callable) -> Callable[[np.ndarray], Tensor]:
        """Decodes and preprocesses the pictures of ``rows`` once; returns what gives (n, 3, h, w) for any of them."""
        decoded = torch.stack([preprocess(self.pictures.load(self.manifest["path"][row])) for row in rows])
        place = {row: i for i, row in enumerate(rows)}
        return lambda some: decoded[[place[row] for row in some]]


def open_dataset(
    pictures: str,  # a folder or a .zip pack, absolute or from the root
    manifest: str | None,  # a table, absolute or from the root; None reads class folders
    *,
    task: Mapping[str, str],  # entry of the tasks catalogue: dataset, domain, criterion
    columns: Mapping[str, str] | None = None,  # our name -> the table's
    seed: int = 0,  # splits class folders, and tables that do not say which picture is for what
) -> Dataset:
    """Opens a dataset for a task; in a table without a ``domain`` column every row belongs to it.

    Raises:
        FileNotFoundError: if the pictures or the table are missing.
        ManifestError: if the table is empty, lacks a column, or has no row of the task's domain.
    """
    if manifest is None:
        table, notes = manifest_from_folders(root() / pictures, seed=seed)
    else:
        table, notes = read_manifest(root() / manifest, columns), []
        if (table["split"] == "").all():
            table, notes = assign_splits(table, seed=seed)
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
    return Dataset(table, open_pictures(root() / pictures), domain, tuple(notes), source)
