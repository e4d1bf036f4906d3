"""A judge that only remembers: it answers from a folder of judgments and never asks."""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ask.judges import Computed, JudgeError, Pair, Reply
from ask.judges.table import from_columns


class Replay(Computed):
    """Answers from a folder that `elicitation.export` or `journal.publish` wrote, under the same identity.

    Raises:
        JudgeError: if the folder holds no judgments, or those of more than one judge.
    """

    batch_size = 1_000_000  # all at once, so that the error counts everything that is missing

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        tables = sorted(self.folder.glob("*.parquet"))
        identities = [json.loads(table.with_suffix(".json").read_text())["identity"] for table in tables]
        if not tables:
            raise JudgeError(
                f"{folder} holds no judgments; give a folder with a .parquet and a .json file of them"
            )
        if any(identity != identities[0] for identity in identities):
            raise JudgeError(
                f"{folder} holds judgments of several judges or settings; give a folder with those of one"
            )
        self.identity = identities[0]
        self._replies: dict[tuple[str, str], Reply] = {}
        for table in map(pd.read_parquet, tables):
            shown = zip(table["first_hash"], table["second_hash"], strict=True)
            self._replies |= dict(zip(shown, from_columns(table), strict=True))

    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """One reply per pair, in order.

        Raises:
            JudgeError: if any pair is not in the folder in this order; the message counts them.
        """
        shown = [(pair.first, pair.second) for pair in pairs]
        if missing := sum(pair not in self._replies for pair in shown):
            name = self.identity["name"]
            raise JudgeError(
                f"{missing} of {len(pairs)} pairs are not among the {len(self._replies)} judgments in "
                f"{self.folder}; "
                f"ask judge {name} itself, or plan only pairs that it has scored"
            )
        return [self._replies[pair] for pair in shown]
