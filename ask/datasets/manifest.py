"""Manifests: the table ``path,label,split`` that says which pictures there are and what each is for.

In reading order: `read_manifest` reads a CSV under the names its author used, `manifest_from_folders` makes
one of a tree of class folders, `assign_splits` decides what each picture is for. Nothing here opens a
picture.

The splits: ``train``, ``heldout`` (new pictures of the adaptation classes), ``validation``, ``gallery``
(classes kept out of adaptation), ``outside`` (other classes), ``bench`` (zero-shot benchmarks).
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ask.datasets.pictures import check_inside

SPLITS = ("train", "heldout", "validation", "gallery", "outside", "bench")
SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm"}
HIDDEN = (".", "__MACOSX")


class ManifestError(ValueError):
    """A manifest or a folder of pictures cannot be used as it is; the message names what is wrong with it."""


def read_manifest(
    path: Path | str,
    columns: Mapping[str, str] | None = None,  # our name -> the name in the file
) -> pd.DataFrame:  # path, label, split and every other column of the file
    """A manifest from a CSV file; ``label`` and ``split`` are empty strings where the file says nothing.

    Raises:
        FileNotFoundError: if there is no such file.
        ManifestError: for an empty file, a missing column, an unknown split, a path that comes twice.
        PictureError: for a path that leaves the picture folder.
    """
    path, columns = Path(path), dict(columns or {})
    if not path.is_file():
        raise FileNotFoundError(
            f"manifest {path} is missing; give a CSV file with the columns path,label,split"
        )
    try:
        table = pd.read_csv(path, dtype=_text_columns(columns), keep_default_na=False, encoding="utf-8-sig")
    except pd.errors.EmptyDataError:
        table = pd.DataFrame()
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ManifestError(
            f"manifest {path} is not a CSV file in UTF-8 ({error}); export it as one"
        ) from error
    if table.empty:
        raise ManifestError(
            f"manifest {path} lists no pictures; it needs one row per picture below its header"
        )
    for ours in ("path", *columns):
        if columns.get(ours, ours) not in table:
            theirs, found = columns.get(ours, ours), ", ".join(map(str, table))
            raise ManifestError(
                f"manifest {path} has no column {theirs!r} for our {ours!r}; its columns are {found}"
            )
    renamed = {theirs: ours for ours, theirs in columns.items()}
    shadowed = [ours for ours in columns if ours in table and ours not in renamed]
    table = table.drop(columns=shadowed).rename(columns=renamed)
    for optional in ("label", "split"):
        table[optional] = table.get(optional, "")
    _check_rows(table, path)
    ours = ["path", "label", "split"]
    return table[[*ours, *table.columns.difference(ours, sort=False)]]


def manifest_from_folders(
    folder: Path | str,
    *,
    seed: int,
) -> tuple[pd.DataFrame, list[str]]:  # a manifest, and notes for the reader
    """A manifest of every picture below a folder, labelled by the folder it lies in.

    `assign_splits` decides the splits. What all class folders share is left out of the label:
    ``photos/dogs/pug/1.jpg`` is a ``pug``. Hidden files and links to folders are passed over.

    Raises:
        FileNotFoundError: if there is no such folder.
        ManifestError: if it holds no pictures.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"picture folder {folder} is missing; give one with a folder per class")
    found = [
        (Path(place) / file).relative_to(folder)
        for place, _, files in os.walk(folder)
        for file in files
        if Path(file).suffix.lower() in SUFFIXES
    ]
    paths = sorted(path for path in found if not any(part.startswith(HIDDEN) for part in path.parts))
    if not paths:
        known = ", ".join(sorted(SUFFIXES))
        raise ManifestError(f"picture folder {folder} holds no pictures ({known}); give another one")
    homes = [path.parent for path in paths]
    shared = Path(os.path.commonpath(homes))
    labels = [home.relative_to(shared).as_posix() for home in homes]
    table = pd.DataFrame({"path": [path.as_posix() for path in paths], "label": labels, "split": ""})
    table["label"] = table["label"].replace(".", "")
    return assign_splits(table, seed=seed)


def assign_splits(
    manifest: pd.DataFrame,
    *,
    seed: int,
    gallery: float = 0.25,
    heldout: float = 0.2,
    validation: float = 0.1,
    smallest: int = 8,
) -> tuple[pd.DataFrame, list[str]]:  # the manifest sorted by label and path, and notes for the reader
    """Decides what each picture is for, from the seed and the names alone.

    ``gallery`` of the classes are kept out of adaptation; of every other class, ``heldout`` and
    ``validation`` of the pictures are set aside and the rest is for training. Pictures without a label and
    classes of fewer than ``smallest`` pictures are ``outside``. With one class or none, labels mean nothing:
    they are emptied and single pictures take the place of classes. Adding pictures to one class moves none of
    another.
    """
    table = manifest.sort_values(["label", "path"], ignore_index=True)
    aside = {"heldout": heldout, "validation": validation}
    sizes = table["label"][table["label"] != ""].value_counts()
    if len(sizes) < 2:
        split = _deal(table["path"], {"gallery": gallery, **aside}, seed)
        notes = ["one class or none was found: groups are random and class metrics are skipped"]
        return table.assign(label="", split=split), notes

    usable = pd.Series(sorted(sizes.index[sizes >= smallest]), dtype=str)
    n_unseen = min(max(1, round(gallery * len(usable))), max(0, len(usable) - 2))
    role = dict(zip(usable, _deal(usable, {"gallery": n_unseen / max(1, len(usable))}, seed), strict=True))
    table["split"] = table["label"].map(lambda label: role.get(label, "outside"))
    for _, paths in table["path"][table["split"] == "train"].groupby(table["label"]):
        table.loc[paths.index, "split"] = _deal(paths, aside, seed)
    return table, _notes(table, usable, n_unseen, smallest)


def _deal(
    names: pd.Series,  # n unique names
    shares: Mapping[str, float],  # split -> share of the names
    seed: int,
) -> pd.Series:  # n splits; what no share takes is "train"
    """Deals names to splits in an order that looks random but depends on the seed and the names only."""
    order = names.map(lambda name: hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()).sort_values().index
    split, start = pd.Series("train", index=names.index), 0
    for name, share in shares.items():
        stop = start + round(share * len(names))
        split[order[start:stop]] = name
        start = stop
    return split


def _notes(table: pd.DataFrame, usable: pd.Series, n_unseen: int, smallest: int) -> list[str]:
    notes = []
    if n_unlabelled := int((table["label"] == "").sum()):
        notes.append(f"{n_unlabelled} pictures have no label and are outside")
    small = sorted(set(table["label"]) - set(usable) - {""})
    if small:
        notes.append(f"classes with fewer than {smallest} pictures are outside: {', '.join(small)}")
    if not n_unseen:
        notes.append(f"{len(usable)} classes are too few to keep one out of adaptation: the gallery is empty")
    return notes


def _text_columns(columns: Mapping[str, str]) -> dict[str, type]:
    """A label such as ``007`` or ``NA`` is text, not a number and not a gap."""
    return {columns.get(ours, ours): str for ours in ("path", "label", "split")}


def _check_rows(table: pd.DataFrame, path: Path) -> None:
    for picture in table["path"]:
        check_inside(picture)
    if (repeated := table["path"].duplicated()).any():
        raise ManifestError(
            f"manifest {path} lists {table['path'][repeated].iloc[0]} twice; keep one row per picture"
        )
    if not (known := table["split"].isin(("", *SPLITS))).all():
        row, stray = known.idxmin() + 2, table["split"][known.idxmin()]
        raise ManifestError(
            f"manifest {path} has the split {stray!r} in line {row}; known: {', '.join(SPLITS)}"
        )
