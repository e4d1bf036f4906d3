import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ask.judges.verdict import (
    PROBABILITIES,
    argmax,
    entropy,
    expected,
    mass,
    parsed,
    rounded,
    scores,
    verdicts,
)

NAN = float("nan")
weights = arrays(float, 9, elements=st.floats(0.001, 1))


def row(**digits: float) -> np.ndarray:
    return np.array([digits.get(name, NAN) for name in PROBABILITIES])


def test_the_expectation_renormalises_over_the_digits_that_came_back():
    assert expected(row(p4=0.3, p8=0.1)) == pytest.approx((0.3 * 4 + 0.1 * 8) / 0.4)


@settings(deadline=None)
@given(weights)
def test_the_expectation_agrees_with_a_loop_and_stays_on_the_scale(digits):
    total = sum(digits)
    slow = sum(v * p / total for v, p in enumerate(digits, start=1))
    assert expected(digits) == pytest.approx(slow)
    assert 1 <= expected(digits) <= 9


@settings(deadline=None)
@given(weights, st.floats(0.01, 1))
def test_no_rule_depends_on_how_much_mass_came_back(digits, share):
    for rule in (expected, argmax, entropy):
        assert rule(digits * share) == pytest.approx(rule(digits))


def test_expected_rounded_and_argmax_can_all_differ():
    digits = row(p1=0.4, p6=0.3, p7=0.3)
    assert [rule(digits) for rule in (expected, rounded, argmax)] == pytest.approx([4.3, 4, 1])


def test_halves_round_up_and_ties_take_the_lower_digit():
    assert rounded(row(p2=0.5, p3=0.5)) == 3
    assert rounded(row(p3=0.5, p4=0.5)) == 4
    assert argmax(row(p3=0.5, p4=0.5)) == 3


@pytest.mark.parametrize("rule", [expected, rounded, argmax, entropy])
def test_no_digits_give_no_verdict(rule):
    assert np.isnan(rule(row()))
    assert np.isnan(rule(row(p3=0.0)))


def test_entropy_is_in_bits_and_also_reads_counts():
    assert entropy(row(p1=0.2, p9=0.2)) == pytest.approx(1)
    assert entropy(np.full(8, 5)) == pytest.approx(3)
    assert entropy(row(p4=0.7)) == 0


def test_mass_is_what_fell_on_digits():
    assert mass(row(p1=0.2, p9=0.25)) == pytest.approx(0.45)
    assert mass(row()) == 0


@pytest.mark.parametrize(("text", "digit"), [("7", 7), (" 9\n", 9)])
def test_a_lone_digit_is_an_answer(text, digit):
    assert parsed(text) == digit


@pytest.mark.parametrize("text", ["", "0", "10", "78", "seven", "７", "²", "7 or 8"])
def test_anything_else_is_none(text):
    assert np.isnan(parsed(text))


def test_a_table_says_where_each_score_is_from():
    table = verdicts(np.stack([row(p2=0.5, p4=0.5), row(), row()]), ["2", "6", "sorry"])
    assert table["method"].tolist() == ["expected", "parsed", "none"]
    assert table["score"].tolist()[:2] == [3, 6]
    assert np.isnan(table["score"][2])


def test_rules_apply_to_stored_digits_and_leave_parsed_answers_alone():
    table = pd.DataFrame(np.stack([row(p1=0.4, p6=0.3, p7=0.3), row()]), columns=PROBABILITIES)
    table = table.assign(score=[4.3, 6.0], method=["expected", "parsed"])
    assert scores(table, "expected").tolist() == pytest.approx([4.3, 6])
    assert scores(table, "rounded").tolist() == [4, 6]
    assert scores(table, "argmax").tolist() == [1, 6]
    with pytest.raises(ValueError, match="verdict must be one of expected, rounded, argmax, but is 'mean'"):
        scores(table, "mean")
