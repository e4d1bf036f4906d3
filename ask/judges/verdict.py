"""From a reply to a score: the paper's three verdict rules, and how sure of itself a reply is.

All are pure functions of the stored digits, so a rule can be changed without asking a judge again (ASK, E.3).
In reading order: `expected` (the default), `rounded`, `argmax`, `parsed` (where no probabilities came back),
`verdicts` (all of it for a table), `scores` (one rule for a table), `mass`, `entropy`.
"""

import numpy as np
import pandas as pd

from ask.judges import DIGITS
from ask.judges.text import find_digit

PROBABILITIES = [f"p{digit}" for digit in DIGITS]  # columns of a table of judgments


def expected(
    digits: np.ndarray,  # (..., V) probabilities of the digits 1..V as returned, nan where one was not
) -> np.ndarray:  # (...,) in [1, V], nan where none was
    """Expected digit, s = Σ v·p(v) / Σ p(v) over the returned digits.

    ASK, eq. (2). A digit that was not returned counts as zero; there is no floor.
    """
    values = np.arange(1, digits.shape[-1] + 1)
    total = mass(digits)
    weighted = (np.nan_to_num(digits) * values).sum(-1)
    return np.divide(weighted, total, out=np.full(np.shape(total), np.nan), where=total > 0)


def rounded(
    digits: np.ndarray,  # (..., V)
) -> np.ndarray:  # (...,) whole numbers in [1, V], nan where no digit was returned
    """The expected digit, rounded; halves go up (ASK, E.3)."""
    return np.floor(expected(digits) + 0.5)


def argmax(
    digits: np.ndarray,  # (..., V)
) -> np.ndarray:  # (...,) whole numbers in [1, V], nan where no digit was returned
    """The most probable digit, the lower one of a tie (ASK, E.3)."""
    return np.where(mass(digits) > 0, np.nan_to_num(digits).argmax(-1) + 1.0, np.nan)


RULES = {"expected": expected, "rounded": rounded, "argmax": argmax}


def parsed(text: str) -> float:
    """The digit that an answer consists of, nan if it is anything else: a garbled answer is data."""
    return float(find_digit(text).digit or "nan")


def mass(
    digits: np.ndarray,  # (..., V)
) -> np.ndarray:  # (...,)
    """The probability that fell on rating digits; what is missing to one went to other words."""
    return np.nansum(digits, axis=-1)


def entropy(
    weights: np.ndarray,  # (..., V) probabilities of digits, or counts of verdicts
) -> np.ndarray:  # (...,) bits, in [0, log2 V], nan where all are zero
    """Entropy of the renormalised weights, H = -Σ p·log2 p.

    On counts of rounded verdicts these are the *Bits* of ASK, Table 3.
    """
    weights = np.nan_to_num(weights)
    total = weights.sum(-1, keepdims=True)
    p = np.divide(weights, total, out=np.full(weights.shape, np.nan), where=total > 0)
    return -(p * np.log2(p, out=np.zeros_like(p), where=p > 0)).sum(-1) + 0.0


def verdicts(
    digits: np.ndarray,  # (n, V)
    texts: list[str],  # n answers
    declared: str | None = None,  # expected or parsed: how all of a judge's replies are to be read
) -> pd.DataFrame:  # n rows: score, method, mass, entropy
    """Score and certainty of each reply.

    ``method`` says where the score is from: ``expected`` digit, ``parsed`` text, or ``none``, whose score is
    nan. A reply that cannot be read as declared keeps its method, to be counted, and has no score.
    """
    score, read = expected(digits), np.array([parsed(text) for text in texts], float)
    if declared == "parsed":
        score = np.full_like(score, np.nan)
    method = np.where(~np.isnan(score), "expected", np.where(~np.isnan(read), "parsed", "none"))
    score = np.where(method == "expected", score, np.nan if declared == "expected" else read)
    return pd.DataFrame({"score": score, "method": method, "mass": mass(digits), "entropy": entropy(digits)})


def scores(
    judgments: pd.DataFrame,  # n rows with score, method and p1..p9
    rule: str,
) -> np.ndarray:  # (n,)
    """The scores of a table of judgments under a verdict rule; a parsed answer has one score under all.

    Raises:
        ValueError: for a rule other than expected, rounded or argmax.
    """
    if rule not in RULES:
        raise ValueError(f"verdict must be one of {', '.join(RULES)}, but is {rule!r}")
    ruled = RULES[rule](judgments[PROBABILITIES].to_numpy(float))
    return np.where(judgments["method"] == "expected", ruled, judgments["score"])
