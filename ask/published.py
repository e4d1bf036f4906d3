"""The paper's published numbers, to print beside ours: one row per table cell, as in ``published.csv``."""

from functools import cache
from pathlib import Path

import pandas as pd

_FILE = Path(__file__).with_suffix(".csv")


@cache
def cells() -> pd.DataFrame:  # table, panel, row, column, value, text
    """Every cell of the paper's tables; tables and panels are strings, an absent panel is empty."""
    known = pd.read_csv(_FILE, dtype=str, keep_default_na=False)  # "None" is the name of a row
    return known.assign(value=pd.to_numeric(known["value"]))


def published(table: str, row: str, column: str, panel: str = "") -> float:
    """The number in one cell, in the paper's own unit; ``panel`` is the letter before the colon.

    Raises:
        KeyError: if there is no such cell, naming it.
    """
    known = cells()
    letter = known["panel"].str.partition(":")[0]
    found = known[
        (known["table"] == table) & (letter == panel) & (known["row"] == row) & (known["column"] == column)
    ]
    if len(found) != 1:
        raise KeyError(
            f"the paper has no single cell {row} / {column} in table {table}{panel}; see published.csv"
        )
    return float(found["value"].iloc[0])
