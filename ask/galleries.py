"""Figures made of pictures: what was retrieved, what a judge was shown, what a group holds.

    gallery          one row per student, several queries side by side: ASK, Figures 11 to 13
    comparison       one query, one column per student: Figure 1a
    pair_strip       pairs with the judge's digits below them
    contact_sheet    pictures on a grid

Each figure is one axes whose unit is the side of a picture, x to the right and y down. Pictures are cut to
the central square, which is what a student sees of them. Nothing is computed; `ask.figures.save` writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from PIL import Image, ImageOps

from ask.figures import PALE, style

QUERY = "#0b9a9a"  # teal; also the expected digit
RIGHT, WRONG = "#2e9e5b", "#d1495b"
BARS = "#a9bcc9"
SIDE = 0.75  # inches a picture's side
PIXELS = 96  # of a side, enough for SIDE
GAP, BLOCK, LINE = 0.06, 0.5, 0.2  # pictures: between neighbours, between queries, a line of text
WIDE = 16  # letters of a title before it is broken


@dataclass(frozen=True)
class Shelf:
    """What one student retrieved for every query of a gallery.

    Attributes:
        title: the student, or the criterion it was trained for.
        retrieved: per query its k nearest pictures, the best first.
        right: per query and rank whether the class is the query's; None where classes are not the question.
    """

    title: str
    retrieved: Sequence[Sequence[Image.Image]]
    right: Sequence[Sequence[bool]] | None = None

    def draw(self, ax: Axes, query: int, corners: Iterable[tuple[float, float]]) -> None:
        """Draws the pictures retrieved for a query at these upper left corners, with their marks."""
        for rank, (picture, (x, y)) in enumerate(zip(self.retrieved[query], corners, strict=True)):
            _picture(ax, picture, x, y)
            if self.right is not None:
                _mark(ax, x, y, bool(self.right[query][rank]))


@style()
def gallery(
    queries: Sequence[Image.Image],  # q
    shelves: Sequence[Shelf],  # each with q times k pictures
    *,
    note: str = "",
) -> Axes:
    """One row per student: each query in a teal frame, then its k nearest pictures.

    ASK, Figures 11 to 13. Right and wrong differ in colour, sign and line, on shelves that say what is right.
    """
    k, pitch, down = len(shelves[0].retrieved[0]), 1 + GAP, 1 + 2 * GAP
    block = (k + 1) * pitch + GAP + BLOCK
    titles = [shelf.title for shelf in shelves]
    width, height = len(queries) * block - BLOCK - GAP, len(shelves) * down - 2 * GAP
    ax = _canvas(width, height, titles=titles, top=LINE, note=note)
    for q, query in enumerate(queries):
        across = [q * block + pitch * place + GAP * (place > 0) for place in range(k + 1)]
        for x, heading in zip(across, ["query", *range(1, k + 1)], strict=True):
            _quiet(ax, x + 0.5, -0.1, heading)
        for row, shelf in enumerate(shelves):
            _picture(ax, query, across[0], row * down, frame=QUERY)
            shelf.draw(ax, q, [(x, row * down) for x in across[1:]])
    _titles(ax, titles, down)
    return ax


@style()
def comparison(
    query: Image.Image,
    shelves: Sequence[Shelf],  # each with k pictures for this one query
    *,
    note: str = "",
) -> Axes:
    """One query as high as k pictures, then one column per student with its k nearest, the best on top.

    ASK, Figure 1a.
    """
    k, pitch = len(shelves[0].retrieved[0]), 1 + 1.5 * GAP
    size, titles = k * pitch - 1.5 * GAP, [fill(shelf.title, 10) for shelf in shelves]
    left, lines = size + 4 * GAP, 1 + max(title.count("\n") for title in titles)
    ax = _canvas(left + len(shelves) * pitch - 1.5 * GAP, size, top=lines * LINE, note=note)
    _picture(ax, query, 0, 0, size=size, frame=QUERY)
    _quiet(ax, size / 2, -0.1, "query")
    for column, (shelf, title) in enumerate(zip(shelves, titles, strict=True)):
        x = left + column * pitch
        ax.text(x + 0.5, -0.1, title, ha="center", va="baseline", linespacing=1.1)
        shelf.draw(ax, 0, [(x, rank * pitch) for rank in range(k)])
    return ax


@style()
def pair_strip(
    pairs: Sequence[tuple[Image.Image, Image.Image]],  # n, in the order shown
    digits: np.ndarray,  # (n, V) probabilities, nan where a digit was not returned
    scores: np.ndarray,  # (n,) in [1, V], nan where there is none
    *,
    titles: Sequence[str],  # one per row; n is a multiple of their number
    note: str = "",
) -> Axes:
    """Pairs as the judge saw them; below, its digits' probabilities on one scale and the score in teal."""
    per_row, wide, high = len(pairs) // len(titles), 2 + GAP / 2, 2.2
    ax = _canvas(per_row * (wide + BLOCK) - BLOCK, len(titles) * high - 0.25, titles=titles, note=note)
    most = np.nanmax(digits, initial=0) or 1.0
    for n, (first, second) in enumerate(pairs):
        x, y = n % per_row * (wide + BLOCK), n // per_row * high
        _picture(ax, first, x, y)
        _picture(ax, second, x + 1 + GAP / 2, y)
        _verdict(ax, np.nan_to_num(digits[n]) / most, scores[n], x, y + 1.7, wide)
    _titles(ax, titles, high)
    return ax


@style()
def contact_sheet(
    pictures: Sequence[Image.Image],  # n
    *,
    columns: int,
    titles: Sequence[str] = (),  # one per row
    note: str = "",
) -> Axes:
    """All pictures on a grid, row by row."""
    rows, pitch = -(-len(pictures) // columns), 1 + GAP
    ax = _canvas(columns * pitch - GAP, rows * pitch - GAP, titles=titles, note=note)
    for n, picture in enumerate(pictures):
        _picture(ax, picture, n % columns * pitch, n // columns * pitch)
    _titles(ax, titles, pitch)
    return ax


def _canvas(
    width: float,  # of what will be drawn from (0, 0), in pictures
    height: float,
    *,
    titles: Sequence[str] = (),  # which need room at the left
    top: float = 0.0,
    note: str = "",
) -> Axes:
    letters = max((len(line) for title in titles for line in fill(title, WIDE).split("\n")), default=0)
    left, bottom = 0.09 * letters + 0.12 * bool(letters), 1.6 * LINE * bool(note)
    across, down = (-left - GAP, width + GAP), (height + bottom + GAP, -top - GAP)
    figure = plt.figure(figsize=(SIDE * (across[1] - across[0]), SIDE * (down[0] - down[1])))
    ax = figure.add_axes((0, 0, 1, 1), xlim=across, ylim=down, autoscale_on=False)
    ax.set_axis_off()
    ax.text(width, height + bottom, note, ha="right", va="bottom", color=PALE, fontsize="small")
    return ax


def _titles(ax: Axes, titles: Sequence[str], down: float) -> None:
    for row, title in enumerate(titles):
        ax.text(-0.12, row * down + 0.5, fill(title, WIDE), ha="right", va="center")


def _quiet(ax: Axes, x: float, y: float, text: object) -> None:
    ax.text(x, y, str(text), ha="center", va="baseline", color=PALE, fontsize="small")


def _picture(ax: Axes, picture: Image.Image, x: float, y: float, size: float = 1.0, frame: str = "") -> None:
    side = round(PIXELS * size)
    square = ImageOps.fit(picture, (side, side), Image.Resampling.LANCZOS)
    ax.imshow(square, extent=(x, x + size, y + size, y), aspect="auto")
    if frame:
        ax.add_patch(Rectangle((x, y), size, size, fill=False, ec=frame, lw=2.4, joinstyle="miter", zorder=3))


def _mark(ax: Axes, x: float, y: float, right: bool) -> None:
    """A green solid frame with a round tick, or a red dashed one with a square cross."""
    colour, sign, line = (RIGHT, "✓", "-") if right else (WRONG, "✗", (0, (2.5, 1)))
    ax.add_patch(Rectangle((x, y), 1, 1, fill=False, ec=colour, lw=2.0, ls=line, joinstyle="miter", zorder=3))
    shape = "circle" if right else "square"
    badge = {"boxstyle": f"{shape},pad=0.22", "fc": colour, "ec": "white", "lw": 0.7}
    centred = {"ha": "center", "va": "center", "fontsize": 7, "color": "white", "zorder": 4}
    ax.text(x + 0.86, y + 0.14, sign, bbox=badge, **centred)


def _verdict(ax: Axes, heights: np.ndarray, score: float, x: float, y: float, wide: float) -> None:
    """Bars (V,) in [0, 1] standing on y; the score as a line at its place between the digits."""
    step = wide / len(heights)
    for v, height in enumerate(heights):
        ax.add_patch(Rectangle((x + (v + 0.1) * step, y), 0.8 * step, -0.42 * height, fc=BARS, ec="none"))
        _quiet(ax, x + (v + 0.5) * step, y + 0.17, v + 1)
    ax.plot([x, x + wide], [y, y], color=PALE, lw=0.6)
    if np.isfinite(score):
        at = x + (score - 0.5) * step
        ax.plot([at, at], [y, y - 0.45], color=QUERY, lw=1.4, solid_capstyle="butt")
        ax.text(at, y - 0.46, f"{score:.1f}", ha="center", va="bottom", color=QUERY, fontweight="bold")
