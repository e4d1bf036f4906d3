"""Elicitation: which pairs to ask about, what that costs, and asking so that nothing is asked twice.

In reading order: `stratified_groups` and `random_groups` choose pictures, `dense_pairs` and `swapped` the
pairs among them, `estimate` the price; `elicit` asks for what is not yet known, and `export` writes the table
of judgments.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ask.journal import Answers, Journal, asking_lock, read_snapshot
from ask.judges import Judge, JudgeError, Pair, Reply
from ask.judges.table import to_columns, write_json, write_table
from ask.judges.verdict import PROBABILITIES, verdicts


class GroupError(ValueError):
    """There are too few pictures or classes for the groups asked for; the message counts them."""


def stratified_groups(
    labels: Sequence[str],  # n classes
    rows: Sequence[int],  # n rows of the manifest
    *,
    groups: int,
    seed: int,
    classes: int = 8,
    per_class: int = 4,
) -> np.ndarray:  # (g, b) rows, b = classes * per_class, sorted by class
    """Groups of ``classes`` x ``per_class`` pictures, in passes in which no picture occurs twice.

    ASK, appendix C.2: 1,000 pictures of 25 classes make 31 groups per pass. A pass deals every class's
    pictures in hands of ``per_class`` and fills each group from the classes with the most hands left, which
    makes the most groups there can be. Fewer groups are always the first of more.

    Raises:
        GroupError: if there are fewer classes than asked, or a class with fewer pictures.
    """
    members = {label: images.to_numpy() for label, images in pd.Series(list(rows)).groupby(list(labels))}
    if len(members) < classes:
        raise GroupError(
            f"groups of {classes} classes were asked for, but there are {len(members)}; ask for fewer"
        )
    for label, images in members.items():
        if len(images) < per_class:
            raise GroupError(
                f"class {label} has {len(images)} images, {per_class} asked; add some or leave it out"
            )

    def one_pass(rng: np.random.Generator) -> list[np.ndarray]:
        shuffles = (
            rng.permutation(images)[: len(images) // per_class * per_class] for images in members.values()
        )
        hands = [list(images.reshape(-1, per_class)) for images in shuffles]
        dealt = []
        while sum(map(bool, hands)) >= classes:
            fullest = np.lexsort((rng.random(len(hands)), [-len(hand) for hand in hands]))[:classes]
            dealt.append(np.concatenate([np.sort(hands[label].pop()) for label in np.sort(fullest)]))
        return dealt

    return _passes(one_pass, groups, seed)


def random_groups(
    rows: Sequence[int],  # n rows of the manifest
    *,
    groups: int,
    seed: int,
    size: int = 32,
) -> np.ndarray:  # (g, b) rows, b = size, sorted
    """Groups of pictures without labels, in passes in which no picture occurs twice.

    Raises:
        GroupError: if there are fewer pictures than one group needs.
    """
    if len(rows) < size:
        raise GroupError(
            f"groups of {size} images were asked for, but there are {len(rows)}; add some or ask for fewer"
        )

    def one_pass(rng: np.random.Generator) -> list[np.ndarray]:
        return list(np.sort(rng.permutation(rows)[: len(rows) // size * size].reshape(-1, size)))

    return _passes(one_pass, groups, seed)


def _passes(
    one_pass: Callable[[np.random.Generator], list[np.ndarray]], groups: int, seed: int
) -> np.ndarray:
    made: list[np.ndarray] = []
    turn = 0
    while len(made) < groups:
        made += one_pass(np.random.default_rng([seed, turn]))
        turn += 1
    return np.array(made[:groups])


def dense_pairs(
    groups: Iterable[Sequence[int]],  # rows of the manifest; one group of everything gives all pairs
    hashes: Mapping[int, str] | Sequence[str],  # row -> hash of its picture
) -> list[Pair]:
    """Every distinct unordered pair within the groups, once, the smaller hash shown first.

    The order has nothing to do with who the pictures are, but is the same in every plan. The same picture
    under two rows is one picture; it is not compared with itself.
    """
    pairs: dict[tuple[str, str], Pair] = {}
    for group in groups:
        images = sorted((hashes[row], int(row)) for row in group)
        for (first, first_row), (second, second_row) in combinations(images, 2):
            if first != second:
                pairs.setdefault((first, second), Pair(first, second, first_row, second_row))
    return list(pairs.values())


def swapped(pairs: Iterable[Pair]) -> list[Pair]:
    """The same pairs in the other order, to measure a judge's order consistency (ASK, Table 12)."""
    return [Pair(pair.second, pair.first, pair.second_row, pair.first_row) for pair in pairs]


@dataclass(frozen=True)
class Estimate:
    """What a plan will cost."""

    pairs: int
    tokens: int  # in and out
    cost: float  # US dollars
    seconds: float


def estimate(
    pairs: int,
    *,
    input_tokens: int,  # per pair, both pictures included
    output_tokens: int,
    input_price: float,  # US dollars per million tokens
    output_price: float,
    latency: float,  # seconds until an answer begins
    speed: float,  # output tokens per second
    concurrency: int,  # requests at a time
) -> Estimate:
    """Cost and time of asking about so many pairs; retries are not counted.

    ASK, D.9 and Table 15: cost = n·(in·price_in + out·price_out), time = n·(latency + out / speed) /
    concurrency.
    """
    dollars = pairs * (input_tokens * input_price + output_tokens * output_price) / 1e6
    seconds = pairs * (latency + output_tokens / speed) / concurrency
    return Estimate(pairs, pairs * (input_tokens + output_tokens), dollars, seconds)


@dataclass(frozen=True)
class Elicited:
    """Judgments, and where they came from."""

    judgments: pd.DataFrame  # one row per pair, sorted by the two hashes
    identity: dict[str, Any]  # of the judge
    asked: int  # pairs that the judge was asked about now
    reused: int  # pairs whose answers were already stored or published
    doubtful: int  # requests, over all runs, that may have been paid for although no answer was stored

    def __str__(self) -> str:
        return f"{self.asked} asked, {self.reused} reused, {self.doubtful} perhaps paid in vain"


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    done: int  # pairs answered in this run
    total: int  # pairs that had no answer when it began
    cost: int  # micro-dollars in this run
    trouble: Counter[str]  # what went wrong, by kind


def elicit(
    judge: Judge,
    pairs: Sequence[Pair],
    *,
    store: Path,
    published: Path | None = None,
    progress: Callable[[Progress], None] | None = None,  # called as answers come, in whatever thread
) -> Elicited:
    """A judgment for every pair: from the store or the snapshot if there, else from the judge.

    Answers are stored as they come, before anything else happens to them, so a run that is killed goes on
    where it stopped. A second process that needs the same judge waits for the first, then looks again.

    Raises:
        JudgeError: if the judge leaves pairs without a reply; what it did answer is stored.
    """
    answers = _stored(judge, store, published)
    asked = 0
    if _missing(pairs, answers):
        with asking_lock(store, judge.identity):
            asked = len(_missing(pairs, _stored(judge, store, published)))
            judge.settle(pairs)
            answers = _stored(judge, store, published)
            _ask(judge, _missing(pairs, answers), answers, store, progress)
    if left := len(_missing(pairs, answers)):
        kinds = ", ".join(f"{kind} {count}" for kind, count in judge.trouble.most_common())
        raise JudgeError(
            f"judge {judge.identity['name']} left {left} of {len(pairs)} pairs without an answer ({kinds}); "
            "everything else is stored, run again to ask about these"
        )
    replies = [answers[pair.first, pair.second] for pair in pairs]
    table = _judgments(pairs, replies, declared=judge.identity.get("method"))
    doubtful = Journal(store, judge.identity).doubtful()
    return Elicited(table, judge.identity, asked, len(table) - asked, doubtful)


def _stored(judge: Judge, store: Path, published: Path | None) -> Answers:
    """What is known; where store and snapshot differ, the store's."""
    snapshot = read_snapshot(published, judge.identity) if published else {}
    return snapshot | Journal(store, judge.identity).read()


def _ask(
    judge: Judge,
    missing: Sequence[Pair],
    answers: Answers,  # grows
    store: Path,
    progress: Callable[[Progress], None] | None,
) -> None:
    done = cost = 0

    def keep(pairs: Sequence[Pair], replies: Sequence[Reply]) -> None:
        nonlocal done, cost
        journal.append(pairs, replies)
        answers.update(zip(((pair.first, pair.second) for pair in pairs), replies, strict=True))
        done, cost = done + len(pairs), cost + sum(reply.cost for reply in replies)
        if progress:
            progress(Progress(done, len(missing), cost, judge.trouble))

    with Journal(store, judge.identity) as journal:
        if judge.concurrency and missing:
            journal.note(judge.concurrency)
        try:
            judge.ask(missing, keep)
        finally:
            if judge.concurrency and missing:
                journal.note(judge.doubtful)


def export(elicited: Elicited, folder: Path) -> None:
    """Writes ``judgments.parquet`` and ``judgments.json``: nothing but what the stored answers determine."""
    table = elicited.judgments
    write_table(table, folder / "judgments.parquet")
    counts = {method: int(n) for method, n in table["method"].value_counts().items()}
    totals = {"judgments": len(table), "tokens": int(table["tokens"].sum()), "cost": int(table["cost"].sum())}
    write_json({"identity": elicited.identity, "methods": counts, **totals}, folder / "judgments.json")


def _missing(pairs: Iterable[Pair], answers: Answers) -> list[Pair]:
    """The pairs without an answer, each once."""
    missing = {(pair.first, pair.second): pair for pair in pairs if (pair.first, pair.second) not in answers}
    return list(missing.values())


def _judgments(pairs: Sequence[Pair], replies: Sequence[Reply], declared: str | None) -> pd.DataFrame:
    columns = to_columns(replies)
    shown = pd.DataFrame(
        {
            "first_hash": [pair.first for pair in pairs],
            "second_hash": [pair.second for pair in pairs],
            "first_row": np.array([pair.first_row for pair in pairs], np.int64),
            "second_row": np.array([pair.second_row for pair in pairs], np.int64),
        }
    )
    texts = ["" if reply.reason else reply.text for reply in replies]
    read = verdicts(columns[PROBABILITIES].to_numpy(), texts, declared)
    table = pd.concat(
        [shown, read[["score", "method"]], columns[PROBABILITIES], read[["mass", "entropy"]]], axis=1
    )
    table = pd.concat([table, columns.drop(columns=PROBABILITIES)], axis=1)
    return table.sort_values(["first_hash", "second_hash"], ignore_index=True)
