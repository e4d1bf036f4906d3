"""Tables as figures: shaded as in the paper, the same in JupyterLab, an executed notebook and a report.

    shaded_table        any table of ASK, measured beside published, shaded against a reference row
    criteria_matrix     fidelity of every student to every criterion: Tables 4b, 8 and 9

Blue and an upward mark are better than the reference, red and a downward mark worse; a shade is as strong as
the difference is large within its column.
"""

from collections.abc import Collection, Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ask.figures import KERNEL, PALE, finished, style

STRENGTH = 0.5  # of the strongest shade; digits must stay readable on it
LETTER, LINE, CELL = 0.078, 0.23, 1.0  # inches: width of a letter, height of a row, width of a number
PAPER = 0.92  # where in a cell the published digits end; the measured ones end further left


@style()
def shaded_table(
    measured: pd.DataFrame,  # rows x metrics, nan where nothing was measured
    *,
    reference: str,  # the row that all others are compared with
    published: pd.DataFrame | None = None,  # the paper's numbers under the same names, as many as it has
    digits: int | Mapping[str, int] = 1,  # decimals, of all metrics or of each
    lower: Collection[str] = (),  # metrics of which less is better
    note: str = "",  # below the table: whose pictures, whose judgments
) -> Axes:
    """A table of the paper with our numbers and, in grey beside them, the paper's own.

    Our numbers are shaded against our reference row, never against published ones, by differences taken
    before rounding; one that rounds to nothing has neither shade nor mark. The best of a column is bold.

    Raises:
        KeyError: if no row is called ``reference``.
    """
    if reference not in measured.index:
        raise KeyError(f"reference must be one of {', '.join(measured.index)}, but is {reference!r}")
    ends, width = (0.62, CELL) if published is None else (0.46, 1.7 * CELL)
    cell = max(width, max(map(len, measured.columns)) * LETTER + 0.2)  # inches
    names = (max(map(len, measured.index)) * LETTER + 0.2) / cell  # cells
    axes = _ruled(len(measured), measured.shape[1], names=names, cell=cell)
    for i, name in enumerate(measured.index):
        axes.text(-names, i + 0.5, name, va="center_baseline")
    for j, metric in enumerate(measured.columns):
        places = digits if isinstance(digits, int) else digits[metric]
        high = -0.8 if published is None else -1.1
        axes.text(j + 0.5, high, metric, ha="center", va="center", weight="bold")
        if published is not None:
            _write_published(axes, j, published.reindex_like(measured)[metric], places, ends)
        gains = (measured[metric] - measured[metric][reference]) * (-1 if metric in lower else 1)
        _write_measured(axes, j, measured[metric], gains, places, ends)
    return finished(axes, note)


def _ruled(rows: int, columns: int, *, names: float, cell: float) -> Axes:
    """Empty axes, ruled above, below and under the header; a row is one high, a cell one wide."""
    size = (cell * (names + columns), LINE * (rows + 1.6))
    axes = plt.subplots(figsize=size, layout="constrained")[1]
    axes.set(xlim=(-names, columns), ylim=(rows + 0.1, -1.6), xticks=[], yticks=[])
    axes.spines[["left", "right"]].set_visible(False)
    axes.axhline(0, color="0.1", linewidth=0.8)
    return axes


def _write_published(axes: Axes, j: int, values: pd.Series, places: int, ends: float) -> None:
    quiet = {"ha": "right", "va": "center_baseline", "color": PALE}
    axes.text(j + ends, -0.35, "measured", **quiet | {"color": "0.1"}, size="x-small")
    axes.text(j + PAPER, -0.35, "paper", **quiet, size="x-small")
    for i, value in enumerate(values):
        axes.text(j + PAPER, i + 0.5, "" if np.isnan(value) else f"{value:.{places}f}", **quiet)


def _write_measured(
    axes: Axes, j: int, values: pd.Series, gains: pd.Series, places: int, ends: float
) -> None:
    largest, best = gains.abs().max(), gains.max()
    for i, (value, gain) in enumerate(zip(values, gains, strict=True)):
        text = "–" if np.isnan(value) else f"{value:.{places}f}"
        weight = "bold" if gain == best else "normal"
        axes.text(j + ends, i + 0.5, text, ha="right", va="center_baseline", weight=weight)
        if not np.isnan(gain) and round(gain, places) != 0:
            shade = plt.colormaps["RdBu"](0.5 + 0.5 * STRENGTH * gain / largest)
            axes.add_patch(Rectangle((j + 0.04, i + 0.06), ends + 0.1, 0.88, facecolor=shade, linewidth=0))
            axes.text(j + ends + 0.03, i + 0.5, "▲" if gain > 0 else "▼", va="center", size=5)


@style()
def criteria_matrix(
    fidelity: pd.DataFrame,  # students x criteria, Spearman; a student has the name of its criterion
    *,
    note: str = "",
) -> Axes:
    """Whom each student agrees with: the matching student is outlined, the best of each column is bold.

    ASK, Tables 4b, 8 and 9. Rows that are named like no criterion are controls. What is claimed is that the
    outlined cell leads its column.
    """
    size = (0.85 * fidelity.shape[1] + 2.4, 0.34 * len(fidelity) + 0.8)
    axes = plt.subplots(figsize=size, layout="constrained")[1]
    bar = {"label": "fidelity (Spearman)", "pad": 0.02}
    sns.heatmap(fidelity, ax=axes, annot=True, fmt=".2f", linewidths=1, cbar_kws=bar, **KERNEL)
    best = (fidelity == fidelity.max()).to_numpy().ravel()
    for text in np.array(axes.texts)[best]:
        text.set_weight("bold")
    for name in fidelity.index.intersection(fidelity.columns):
        corner = (fidelity.columns.get_loc(name) + 0.03, fidelity.index.get_loc(name) + 0.05)
        for colour, line in (("black", 3.5), ("white", 1.5)):
            axes.add_patch(Rectangle(corner, 0.94, 0.9, fill=False, edgecolor=colour, linewidth=line))
    axes.tick_params(length=0, rotation=0)
    axes.set(xlabel="judged by criterion", ylabel="student")
    return finished(axes, note)
