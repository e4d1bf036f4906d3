"""Figures: what the notebooks show, as functions that return axes and compute nothing that a table quotes.

    style, save         what every figure looks like, and is written as
    heatmaps            kernels and residuals in a grid: ASK, Figures 3a, 8, 9 and 10
    densities           similarity within and between classes: Figure 3b
    spectrum            eigenvalues before and after projection: eq. (3)
    curves              alignment, anchor and learning rate over training: eq. (8)

Kernels share one perceptually uniform scale on [0, 1], residuals one diverging scale on [-1, 1] centred at
0. What a colour says, a place, a pattern, a mark or a number says too, so that a print in grey keeps it.
Tables are in `ask.tables`, figures made of pictures in `ask.galleries`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# One font that Matplotlib brings along: the same letters, and the same bytes, on every machine.
LOOK = {"font.sans-serif": ["DejaVu Sans"], "figure.dpi": 100, "legend.frameon": False}
DARK, LIGHT, WARM, PALE = "#17626a", "#e3bb83", "#c8742c", "0.4"
KERNEL = {"cmap": "mako", "vmin": 0, "vmax": 1}
RESIDUAL = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}
PIXELS = 95  # that an inch of a heatmap has at LOOK's dots per inch, borders taken off
SMALLEST = 4.5  # points of a readable letter
ROUNDING = 1e-9  # an eigenvalue this close to zero is zero


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures, inside a ``with`` block or as a decorator."""
    with sns.plotting_context("paper"), sns.axes_style("ticks"):
        before = {key: plt.rcParams[key] for key in LOOK}
        # Not rc_context: it would also take back `interactive`, by which a notebook shows figures.
        plt.rcParams.update(LOOK)
        try:
            yield
        finally:
            plt.rcParams.update(before)


def save(
    drawn: Axes | np.ndarray,  # what a figure's function returned
    path: Path,
) -> None:
    """Writes the whole figure that `drawn` belongs to as a PNG; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _figure(drawn).savefig(path, bbox_inches="tight", metadata={"Software": None})


@style()
def heatmaps(
    grid: Mapping[str, Mapping[str, np.ndarray]],  # row -> column -> (n, n), in one order of the images
    *,
    residuals: Collection[str] = ("residual",),  # the rows and columns that hold differences
    difference: str = "student − target",  # what these are differences of
    classes: Sequence[str] | None = None,  # (n,) class of each image, sorted
    notes: Mapping[str, Mapping[str, str]] | None = None,  # row -> column -> words below that panel
    note: str = "",  # below the figure: whose pictures, whose judgments
) -> np.ndarray:  # (rows, columns) of axes
    """Kernels and what lies between them, panel by panel; a panel that ``grid`` lacks stays empty.

    ASK, Figures 3a (one row: untrained, target, student), 8 (a row per judge), 9 (kernels above residuals)
    and 10 (a column per criterion). Ticks stand between classes, which are named where there is room.
    """
    columns = list(dict.fromkeys(column for row in grid.values() for column in row))
    size = min(2.3, 8.5 / len(columns))
    figsize = (size * len(columns) + 1.8, size * len(grid) + 0.6)
    figure, axes = plt.subplots(len(grid), len(columns), figsize=figsize, squeeze=False, layout="compressed")
    kernels, differences = [], []
    for panel, (row, column) in zip(axes.flat, product(grid, columns), strict=True):
        panel.set(xticks=[], yticks=[])
        if column not in grid[row]:
            panel.spines[:].set_visible(False)
            continue
        matrix, is_residual = np.asarray(grid[row][column]), bool({row, column} & set(residuals))
        # A pixel or more for each image is crisp, and a third of the bytes; less is averaged, not dropped.
        sharp = "nearest" if len(matrix) <= PIXELS * size else "auto"
        panel.imshow(matrix, interpolation=sharp, **(RESIDUAL if is_residual else KERNEL))
        (differences if is_residual else kernels).append(panel)
        panel.set_xlabel((notes or {}).get(row, {}).get(column, ""), color=PALE, fontsize="small")
        if classes is not None:
            _mark_classes(panel, np.asarray(classes), named=size if panel is axes[0, 0] else 0)
    for panel, column in zip(axes[0], columns, strict=True):
        panel.set_title(column)
    for panel, row in zip(axes[:, 0], grid, strict=True):
        panel.set_ylabel(row, fontsize="large")
    figure.align_ylabels(axes[:, 0])
    for panels, label in ((kernels, "similarity"), (differences, difference)):
        if panels:
            bar = figure.colorbar(panels[-1].images[0], ax=panels, label=label, aspect=30, pad=0.02)
            bar.outline.set_visible(False)
    return finished(axes, note)


def _mark_classes(panel: Axes, classes: np.ndarray, *, named: float) -> None:
    """Ticks between classes; names between the ticks, if `named` inches are enough for letters to be read."""
    names, starts, sizes = np.unique(classes, return_index=True, return_counts=True)
    panel.set_xticks(starts[1:] - 0.5, minor=True)
    panel.set_yticks(starts[1:] - 0.5, minor=True)
    panel.tick_params(which="minor", length=2, width=0.5)
    points = min(6.0, 60 * named / len(names))
    if points >= SMALLEST:
        panel.set_yticks(starts + (sizes - 1) / 2, names, fontsize=points)
        panel.tick_params(axis="y", which="major", length=0)


@style()
def densities(
    similarities: Mapping[str, tuple[np.ndarray, np.ndarray]],  # panel -> same-class, different-class pairs
    *,
    note: str = "",
) -> np.ndarray:  # (panels,) of axes
    """How similar two images of one class are, and two of different ones; Δμ is the distance of the means.

    ASK, Figure 3b. Bins and limits are shared by all panels, and each density integrates to one.
    """
    figsize = (2.5 * len(similarities) + 1.8, 2.6)
    shared = {"sharex": True, "sharey": True, "squeeze": False, "layout": "constrained"}
    figure, axes = plt.subplots(1, len(similarities), figsize=figsize, **shared)
    lowest = min(values.min() for pair in similarities.values() for values in pair)
    bins = np.linspace(min(0.0, lowest), 1.0, 41)
    shown = {"histtype": "stepfilled", "density": True, "bins": bins, "linewidth": 0.5, "edgecolor": "0.2"}
    for panel, (name, (same, different)) in zip(axes[0], similarities.items(), strict=True):
        panel.hist(different, **shown, facecolor=LIGHT, hatch="/////", label="different class")
        panel.hist(same, **shown, facecolor=DARK, alpha=0.8, label="same class")
        for mean in (same.mean(), different.mean()):
            panel.axvline(mean, color="0.1", linestyle=(0, (4, 2)), linewidth=1)
        gap = f"{same.mean() - different.mean():.3f}".replace("-", "−")
        panel.set(title=f"{name}\nΔμ = {gap}", xlabel="similarity")
    axes[0, 0].set_ylabel("density")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    sns.despine(figure)
    return finished(axes[0], note)


@style()
def spectrum(
    raw: np.ndarray,  # (g, b) eigenvalues of the similarity matrices, in any order
    projected: np.ndarray,  # (g, b) eigenvalues of the target kernels
    *,
    note: str = "",
) -> Axes:
    """Eigenvalues from the largest to the smallest: the median of the groups, in a band from least to most.

    ASK, eq. (3). Negative ones, which no kernel has, are triangles in a grey field. The axis is linear within
    ±0.1 and logarithmic beyond, because the largest eigenvalue would hide all others.
    """
    figure, axes = plt.subplots(figsize=(5.6, 3.0), layout="constrained")
    rank = np.arange(1, raw.shape[-1] + 1)
    for name, values, colour, line in (("judged", raw, WARM, "-"), ("projected", projected, DARK, "--")):
        falling = -np.sort(-np.asarray(values), axis=-1)  # (g, b)
        median = np.median(falling, axis=0)
        axes.fill_between(rank, falling.min(0), falling.max(0), color=colour, alpha=0.25, linewidth=0)
        axes.plot(rank, median, line, color=colour, label=name)
        below = median < -ROUNDING
        if below.any():
            axes.plot(rank[below], median[below], "v", color=colour, markersize=5, label="negative")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.yaxis.set_major_formatter("{x:g}")
    bottom = min(axes.get_ylim()[0], -0.1)
    axes.axhspan(bottom, 0, color="0.92", linewidth=0, zorder=0)
    axes.text(1, bottom, " no kernel has eigenvalues here", va="bottom", fontsize="small", color=PALE)
    axes.set(xlabel="rank of the eigenvalue", ylabel="eigenvalue", xlim=(0, len(rank) + 1))
    axes.set_ylim(bottom, None)
    axes.legend(loc="upper right")
    sns.despine(figure)
    return finished(axes, note)


@style()
def curves(
    history: pd.DataFrame,  # one row a step: step, align, anchor, rate
    *,
    align: str = "kernel loss",
    anchor: str = "anchor (nats)",
    window: int = 15,  # steps of the running mean
    note: str = "",
) -> np.ndarray:  # (3,) of axes
    """Training as it went: the two losses of ASK, eq. (8), their running means, and the learning rate."""
    figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.3), sharex=True, layout="constrained")
    for panel, column in zip(axes, ("align", "anchor"), strict=False):
        panel.plot(history["step"], history[column], color="0.75", linewidth=0.8)
        smooth = history[column].rolling(window, center=True, min_periods=1).mean()
        panel.plot(history["step"], smooth, color=DARK)
    axes[2].plot(history["step"], history["rate"], color=DARK)
    for panel, label in zip(axes, (align, anchor, "learning rate"), strict=True):
        panel.set(xlabel="step", ylabel=label, ylim=(0, None))
    sns.despine(figure)
    return finished(axes, note)


def finished(axes: Any, note: str) -> Any:
    """The same axes, a note below them, laid out while the style holds: ticks are made when first drawn."""
    figure = _figure(axes)
    figure.supxlabel(note, x=0.995, ha="right", fontsize="x-small", color=PALE)
    figure.draw_without_rendering()
    return axes


def _figure(drawn: Axes | np.ndarray) -> Figure:
    return np.ravel(np.array(drawn, object))[0].figure
