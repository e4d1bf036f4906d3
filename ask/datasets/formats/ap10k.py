"""AP-10K: animals with 17 keypoints, for the likeness of poses within a species (ASK, D.5).

COCO's format; pictures are not in the order of their numbers, and what cannot be seen is at (0, 0) with flag 0.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from ask.datasets.source import LayoutError, Source, locate, start
from ask.relevance import Annotated, in_box, pose

NAME = "ap10k"
POINTS = 17
VISIBLE = 10  # keypoints that a picture must show
BOX = ("x", "y", "width", "height")


def read(root: Path, split: int = 1, part: str = "test") -> Source:
    """Reads pictures of one animal that is no dog and shows at least ten keypoints; ``keypoints`` is (17, 3)."""
    file = locate(NAME, root, f"annotations/ap10k-{part}-split{split}.json")
    images = start(root, locate(NAME, root, "data/*.jpg").parent)
    told = json.loads(file.read_text(encoding="utf-8"))
    species = {one["id"]: one["name"] for one in told["categories"]}
    names = {one["id"]: one["file_name"] for one in told["images"]}
    animals = Counter(one["image_id"] for one in told["annotations"])
    rows, left_out = [], {}
    for one in sorted(told["annotations"], key=lambda one: one["image_id"]):
        points = np.asarray(one["keypoints"], float)
        if points.size != 3 * POINTS:
            raise LayoutError(
                f"{file}: annotation {one['id']} has {points.size} numbers, wanted are {3 * POINTS}"
            )
        points = points.reshape(POINTS, 3)
        why = _why_not(animals[one["image_id"]], species[one["category_id"]], points)
        if why:
            left_out[one["image_id"]] = why
            continue
        path = f"{images}{names[one['image_id']]}"
        rows.append((path, species[one["category_id"]], one["category_id"], part, points, *one["bbox"]))
    table = pd.DataFrame(rows, columns=["path", "label", "index", "part", "keypoints", *BOX])
    note = f"{len(table)} of {len(animals)} pictures take part; " + ", ".join(
        f"{count} {why}" for why, count in sorted(Counter(left_out.values()).items())
    )
    classes = tuple(species.get(index, "") for index in range(max(species) + 1))
    return Source(NAME, root, table, classes, (note,))


def poses(source: Source) -> Annotated:
    """The likeness of poses; the gallery of a picture are those of its species that share enough keypoints."""
    table = source.table
    points = np.stack(table["keypoints"].to_list())
    placed = in_box(points[..., :2], table[list(BOX)].to_numpy())
    likeness, enough = pose(placed, points[..., 2] > 0)
    species = table["label"].to_numpy()
    within = species[:, None] == species[None, :]
    return Annotated(np.arange(len(table)), likeness, within & enough, species)


def _why_not(animals: int, species: str, points: np.ndarray) -> str:
    if animals > 1:
        return "with several animals"
    if species == "dog":
        return "of dogs"
    return "show too little" if (points[:, 2] > 0).sum() < VISIBLE else ""
