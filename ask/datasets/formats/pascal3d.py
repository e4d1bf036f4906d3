"""PASCAL3D+ (release 1.1): vehicles with the azimuth from which they were seen (ASK, D.5).

``Annotations/<class>_pascal/<id>.mat`` beside the PASCAL VOC lists. Not every annotation has a fine pose: the viewpoint
can be empty, coarse only, or of distance 0. Which pictures are "clear" is a rule that the paper does not spell out:
`Clear` states ours, and what it left out is counted in the notes.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ask.datasets.source import Source, locate, start
from ask.relevance import Annotated, circular

NAME = "pascal3d"
CATEGORIES = ("car", "bus", "motorbike")


@dataclass(frozen=True)
class Clear:
    """What makes a picture clear; the paper finds 86 cars in the validation part."""

    only_one: bool = True  # of its category in the picture
    whole: bool = True  # not truncated
    free: bool = True  # not occluded
    easy: bool = True  # not marked difficult
    fine: bool = True  # azimuth annotated finely, at a distance other than 0


def read(root: Path, part: str = "val", rule: Clear | None = None) -> Source:
    """Reads the clear pictures of every category that is there; ``azimuth`` is in degrees."""
    rule = rule or Clear()
    locate(NAME, root, "Annotations/*_pascal/*.mat")
    rows, notes = [], []
    for index, category in enumerate(CATEGORIES):
        try:
            listed = locate(NAME, root, f"*/VOCdevkit/VOC2012/ImageSets/Main/{category}_{part}.txt")
        except ValueError:
            continue
        ids = [line.split()[0] for line in listed.read_text().splitlines() if line.split()[1:] == ["1"]]
        found, left_out = _clear(root, category, ids, rule)
        rows += [(path, category, index, part, azimuth) for path, azimuth in found]
        told = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()))
        notes.append(
            f"{category}: {len(found)} of {len(ids)} are clear" + (f" (left out: {told})" if told else "")
        )
    table = pd.DataFrame(rows, columns=["path", "label", "index", "part", "azimuth"])
    return Source(NAME, root, table, CATEGORIES, tuple(notes))


def viewpoint(source: Source, category: str = "car") -> Annotated:
    """Pictures of a category with the likeness of their azimuths; the gallery of each are all others."""
    rows = np.flatnonzero(source.table["label"] == category)
    azimuth = source.table["azimuth"].to_numpy(float)[rows]
    everything = np.ones((len(rows), len(rows)), bool)
    return Annotated(rows, circular(azimuth), everything, source.table["path"].to_numpy()[rows])


def _clear(
    root: Path, category: str, ids: list[str], rule: Clear
) -> tuple[list[tuple[str, float]], Counter[str]]:
    annotations = locate(NAME, root, f"Annotations/{category}_pascal")
    images = start(root, locate(NAME, root, f"Images/{category}_pascal"))
    found, left_out = [], Counter()
    for one in ids:
        record = loadmat(annotations / f"{one}.mat")["record"][0, 0]
        objects = [other for other in record["objects"].ravel() if _word(other, "class") == category]
        why, azimuth = _judge(objects, rule)
        if why:
            left_out[why] += 1
        else:
            found.append((f"{images}{one}.jpg", azimuth))
    return found, left_out


def _judge(objects: list[np.void], rule: Clear) -> tuple[str, float]:
    """Why a picture is left out, or nothing; and its azimuth."""
    if not objects or (rule.only_one and len(objects) > 1):
        return ("several", 0.0) if objects else ("none", 0.0)
    first = objects[0]
    for wanted, field in ((rule.whole, "truncated"), (rule.free, "occluded"), (rule.easy, "difficult")):
        if wanted and _number(first, field):
            return field, 0.0
    pose = first["viewpoint"]
    pose = pose[0, 0] if pose.size and pose.dtype.names else None
    fine, distance = _number(pose, "azimuth"), _number(pose, "distance")
    if fine is not None and (distance or not rule.fine):
        return "", fine % 360
    coarse = _number(pose, "azimuth_coarse")
    return ("without fine pose", 0.0) if rule.fine or coarse is None else ("", coarse % 360)


def _number(record: Any, field: str) -> float | None:
    """A number in a record of MATLAB; None where it is missing or empty."""
    if record is None or field not in record.dtype.names or not np.size(record[field]):
        return None
    return float(np.ravel(record[field])[0])


def _word(record: np.void, field: str) -> str:
    return str(np.ravel(record[field])[0]) if np.size(record[field]) else ""
