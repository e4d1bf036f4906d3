"""What a table of judgments says about its judge, and how judges compare that scored the same pairs.

All of it from stored judgments. In reading order: `summary`, `consistency`, `opinions`, `disputed`.
"""

from collections.abc import Mapping
from math import comb

import numpy as np
import pandas as pd

from ask.judges.verdict import entropy
from ask.metrics import judge_agreement

KEY = ["first_hash", "second_hash"]


def summary(
    judgments: pd.DataFrame,  # n pairs
) -> dict[str, float]:
    """How much is known, and how sure the judge is.

    ``coverage`` is the share judged of all pairs that the pictures could form, ``bits`` the entropy of the
    rounded scores (ASK, Table 3), ``unanswered`` counts pairs without a score; score, ``entropy`` of one verdict
    and ``mass`` on digits are means over pairs.
    """
    rounded = np.floor(judgments["score"].dropna() + 0.5).astype(int)
    pairs, images = len(judgments), len(np.unique(judgments[KEY]))
    counted = {"judgments": pairs, "images": images, "unanswered": pairs - len(rounded)}
    known = {"coverage": pairs / comb(images, 2), "bits": float(entropy(np.bincount(rounded)))}
    means = judgments[["score", "entropy", "mass"]].mean().to_dict()
    return counted | known | {"dollars": judgments["cost"].sum() / 1e6} | means


def consistency(
    judgments: pd.DataFrame,  # n pairs
    swapped: pd.DataFrame,  # m pairs, some of the same in the other order
) -> dict[str, float]:
    """How much the order of the pictures matters: `judge_agreement` of a judge with itself, named ``order_``….

    ASK, Table 12. Pairs without a score in both orders do not count.

    Raises:
        NoInformationError: if all scores of either order are the same.
    """
    back = swapped.rename(columns={KEY[0]: KEY[1], KEY[1]: KEY[0]})
    both = judgments.merge(back, on=KEY)[["score_x", "score_y"]].dropna().to_numpy()
    return {f"order_{name}": value for name, value in judge_agreement(both[:, 0], both[:, 1]).items()}


def opinions(
    judged: Mapping[str, pd.DataFrame],  # judge -> its judgments of the same n pairs, in the same order
    swapped: Mapping[str, pd.DataFrame],  # judge -> some of them in the other order
) -> pd.DataFrame:  # one column per judge
    """Judges side by side: `summary`, `consistency`, and rank correlation with each other's scores."""
    told = {name: summary(table) | consistency(table, swapped[name]) for name, table in judged.items()}
    agreement = scores(judged).corr("spearman").add_prefix("agreement with ", axis=0)
    return pd.concat([pd.DataFrame(told), agreement])


def scores(
    judged: Mapping[str, pd.DataFrame],
) -> pd.DataFrame:  # (n, judges)
    """The scores of several judges, one column each."""
    return pd.DataFrame({name: table["score"] for name, table in judged.items()})


def disputed(
    judged: Mapping[str, pd.DataFrame],
    n: int,
) -> np.ndarray:  # (n,) positions
    """The pairs on which the judges are furthest apart, the worst first."""
    apart = scores(judged).max(axis=1) - scores(judged).min(axis=1)
    return np.argsort(-apart.fillna(-1).to_numpy(), kind="stable")[:n]
