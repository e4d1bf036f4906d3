"""The cases from practice in ``tests/cases/judge.json``, and how they are graded."""

import json
from pathlib import Path

import pytest

CASES = json.loads((Path(__file__).parents[1] / "cases" / "judge.json").read_text(encoding="utf-8"))["cases"]


def each(kind: str):
    """Parametrizes a test over the cases of one kind, each under its own name."""
    told = [case for case in CASES if case["kind"] == kind]
    return pytest.mark.parametrize("case", told, ids=[case["id"] for case in told])


def fits(case: dict, **found) -> bool:
    """Whether a result is the expected one, or one of the alternatives; score and method only count if it is ok."""
    return any(_fits(wanted, found) for wanted in [case["expected"], *case.get("alternatives", [])])


def _fits(wanted: dict, found: dict) -> bool:
    if wanted["outcome"] != found["outcome"]:
        return False
    compared = ("wait_s", "cost_usd") + (
        ("score", "method", "digit_mass") if found["outcome"] == "ok" else ()
    )
    return all(_same(wanted[name], found.get(name)) for name in compared if name in wanted)


def _same(wanted, found) -> bool:
    if isinstance(wanted, float | int) and isinstance(found, float | int):
        return abs(wanted - found) <= 1e-6
    return wanted == found
