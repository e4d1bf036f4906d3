"""COCO-Stuff: photographs with a mask of things and stuff, for the composition of backgrounds (ASK, D.5).

``stuffthingmaps``: an 8-bit PNG per picture, holding the number of ``labels.txt`` less one, 255 where nothing is
marked. The mask is cropped as CLIP crops the picture, without mixing labels.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from ask.datasets.source import LayoutError, Source, locate, pictures_in, start
from ask.relevance import Annotated, jaccard

NAME = "cocostuff"
THINGS, STUFF, UNLABELLED = range(91), range(91, 182), 255
DOG = 17
SIDE = 224


def read(root: Path, part: str = "val2017") -> Source:
    """Reads the pictures that have a mask; ``mask`` is its path."""
    images = locate(NAME, root, f"images/{part}/*.jpg", f"{part}/*.jpg").parent
    masks = locate(
        NAME, root, f"annotations/{part}/*.png", f"stuffthingmaps*/{part}/*.png", f"{part}/*.png"
    ).parent
    marked = {Path(file).stem: file for file in pictures_in(masks)}
    files = [file for file in pictures_in(images) if Path(file).stem in marked]
    if not files:
        raise LayoutError(f"{NAME}: no picture of {images} has a mask of its name in {masks}")
    table = pd.DataFrame(
        {
            "path": [f"{start(root, images)}{file}" for file in files],
            "label": "",
            "index": -1,
            "part": part.removesuffix("2017"),
            "mask": [f"{start(root, masks)}{marked[Path(file).stem]}" for file in files],
        }
    )
    return Source(NAME, root, table, ())


@dataclass(frozen=True)
class Shares:
    """Of each picture's crop, what share every label takes."""

    share: np.ndarray  # (n, 182)

    @property
    def stuff(self) -> np.ndarray:  # (n,)
        """All stuff together."""
        return self.share[:, STUFF].sum(1)

    @property
    def foreground(self) -> np.ndarray:  # (n,)
        """All things together."""
        return self.share[:, THINGS].sum(1)

    @property
    def dominant(self) -> np.ndarray:  # (n,) label, -1 without any thing
        """The thing that takes the largest share, the first of equals."""
        things = self.share[:, THINGS]
        return np.where(things.any(1), things.argmax(1), -1)


def shares(source: Source, rows: np.ndarray | None = None, side: int | None = SIDE) -> Shares:
    """Opens the masks. ``side`` None crops the middle square without scaling.

    Raises:
        LayoutError: for a mask that is not one channel of known labels, as in COCO-Stuff's older release.
    """
    paths = source.table["mask"].to_numpy()
    paths = paths if rows is None else paths[rows]
    return Shares(np.stack([_shares(source.root / path, side) for path in paths]))


def backgrounds(
    source: Source,
    told: Shares,
    *,
    least_stuff: float = 0.2,
    least_foreground: float = 0.05,
    least_class: float = 0.01,
    dogs: str = "dominant",  # which pictures are left out: of a dominant dog, or with "any" dog at all
) -> Annotated:
    """Pictures with enough stuff and foreground, and the overlap of their stuff; galleries of other foregrounds.

    Raises:
        ValueError: for a rule about dogs that is not known.
    """
    if dogs not in ("dominant", "any"):
        raise ValueError(f"dogs must be dominant or any, but is {dogs!r}")
    dog = told.dominant == DOG if dogs == "dominant" else told.share[:, DOG] > 0
    rows = np.flatnonzero((told.stuff >= least_stuff) & (told.foreground >= least_foreground) & ~dog)
    present, dominant = told.share[rows][:, STUFF] >= least_class, told.dominant[rows]
    other = dominant[:, None] != dominant[None, :]
    return Annotated(rows, jaccard(present), other, source.table["path"].to_numpy()[rows])


def _shares(file: Path, side: int | None) -> np.ndarray:  # (182,)
    with Image.open(file) as image:
        if image.mode not in ("L", "P"):
            raise LayoutError(f"{file} is of mode {image.mode}; a mask has one channel of 8 bits")
        labels = np.asarray(_crop(image, side))
    counts = np.bincount(labels.ravel(), minlength=256)
    if counts[182:UNLABELLED].any():
        raise LayoutError(
            f"{file} has label {182 + counts[182:255].argmax()}; this release has 0..181 and 255"
        )
    return counts[:182] / labels.size


def _crop(mask: Image.Image, side: int | None) -> Image.Image:
    """The middle square, the shorter side scaled as CLIP scales it."""
    if side:
        scale = side / min(mask.size)
        size = tuple(side if edge == min(mask.size) else int(edge * scale) for edge in mask.size)
        mask = mask.resize(size, Image.Resampling.NEAREST)
    edge = min(mask.size)
    left, top = (round((length - edge) / 2) for length in mask.size)
    return mask.crop((left, top, left + edge, top + edge))
