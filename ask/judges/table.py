"""Replies as columns of a table and back, and tables as files whose bytes depend on their contents alone.

In reading order: `to_columns`, `from_columns`, `write_table`, `write_json`.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ask.judges import DIGITS, Reply
from ask.judges.chat import read_reply
from ask.judges.verdict import PROBABILITIES


def to_columns(replies: Sequence[Reply]) -> pd.DataFrame:  # n rows: p1..p9, reply, provider, tokens, cost
    """One row per reply; a digit that was not returned is nan.

    Where servers were asked, ``reason`` and ``body`` (JSON) follow, so that another reading never means
    asking again.
    """
    digits = [[reply.digits.get(digit, np.nan) for digit in DIGITS] for reply in replies]
    table = pd.DataFrame(np.array(digits, float).reshape(-1, len(DIGITS)), columns=PROBABILITIES)
    table["reply"] = [reply.text for reply in replies]
    table["provider"] = [reply.provider for reply in replies]
    table["tokens"] = np.array([reply.tokens for reply in replies], np.int64)
    table["cost"] = np.array([reply.cost for reply in replies], np.int64)
    if any(reply.body or reply.reason for reply in replies):
        table["reason"] = [reply.reason for reply in replies]
        table["body"] = [json.dumps(reply.body, sort_keys=True) if reply.body else "" for reply in replies]
    return table


def from_columns(
    table: pd.DataFrame,  # n rows with the columns of `to_columns`
) -> list[Reply]:
    """The replies that `to_columns` made the table from."""
    rows = table[PROBABILITIES].to_numpy(float).tolist()
    shown = [{digit: p for digit, p in zip(DIGITS, row, strict=True) if p == p} for row in rows]
    rest = [
        table[column].tolist()
        for column in ("reply", "provider", "tokens", "cost", "reason")
        if column in table
    ]
    replies = [Reply(*fields) for fields in zip(shown, *rest, strict=True)]
    if "body" not in table:
        return replies
    bodies = [json.loads(body) if body else None for body in table["body"]]
    return [read_reply(b, r.cost) if b else r for b, r in zip(bodies, replies, strict=True)]


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Writes Parquet (zstd), complete or not at all, without the names and versions that pandas would add."""
    plain = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    _write_whole(path, lambda partial: pq.write_table(plain, partial, compression="zstd"))


def write_json(value: Any, path: Path) -> None:
    """Writes JSON with sorted keys, complete or not at all."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    _write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _write_whole(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
