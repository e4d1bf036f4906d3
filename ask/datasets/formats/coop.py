"""CoOp's split files, ``split_zhou_*.json``, which ASK's four small domains are drawn from (ASK, C.1).

CoOp itself makes an unseeded random split where its file is missing. Nothing here does.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ask.datasets.pictures import check_inside
from ask.datasets.source import LayoutError

PARTS = ("train", "val", "test")


def read_split(file: Path) -> pd.DataFrame:  # path (as in the file), index, name, coop
    """The rows of a split file.

    Raises:
        LayoutError: if it is no such file, or lists a picture twice.
    """
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        rows = [(path, int(index), name, part) for part in PARTS for path, index, name in told[part]]
    except (ValueError, KeyError, TypeError) as error:
        raise LayoutError(f"{file} is no split file of CoOp ({error!r}); fetch it again") from error
    for path, *_ in rows:
        check_inside(path)
    table = pd.DataFrame(rows, columns=["path", "index", "name", "coop"])
    if (repeated := table["path"].duplicated()).any():
        raise LayoutError(f"{file} lists {table['path'][repeated].iloc[0]} twice; fetch it again")
    return table


def add_split(
    table: pd.DataFrame,  # a source's
    file: Path | None,  # the split file; None leaves the table as it is
    key: Callable[[str], str],  # a picture's path -> what the split file calls it
) -> pd.DataFrame:  # with the column coop, empty for pictures that the file does not list
    """Joins a split file to a table of pictures.

    Raises:
        LayoutError: if the file lists a picture that is not there, or sees two classes where there is one. It may
            number the classes in another order.
    """
    if file is None:
        return table
    split = read_split(file).set_index("path")
    keys = table["path"].map(key)
    if missing := sorted(set(split.index) - set(keys)):
        raise LayoutError(
            f"{file.name} lists {missing[0]}, which is not there ({len(missing)} are missing of {len(split)}); "
            "complete the pictures"
        )
    both = (
        pd.DataFrame({"ours": table["index"], "theirs": keys.map(split["index"])}).dropna().drop_duplicates()
    )
    if (mixed := both["ours"].duplicated() | both["theirs"].duplicated()).any():
        index = both["ours"][mixed].iloc[0]
        label = table["label"][table["index"] == index].iloc[0]
        raise LayoutError(
            f"{file.name} and the pictures disagree about class {index} ({label}); "
            "one of the two is of another release"
        )
    return table.assign(coop=keys.map(split["coop"]).fillna(""))
