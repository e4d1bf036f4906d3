import numpy as np
import pytest

from ask.judges.replies import digit_probabilities, replies
from ask.judges.verdict import argmax, expected


def test_the_peak_lies_at_the_wanted_score():
    mean = np.linspace(3, 7, 41)
    digits = digit_probabilities(mean, spread=0.7, scale=9)
    assert digits.shape == (41, 9)
    assert digits.sum(-1) == pytest.approx(1, abs=5e-4)
    assert expected(digits) == pytest.approx(mean, abs=0.01)


def test_favourite_digits_win_far_from_home_but_the_expectation_still_moves():
    mean = np.linspace(1, 9, 81)
    digits = digit_probabilities(mean, spread=1.2, scale=9, favours=(2, 5, 8), heaping=2.0)
    assert set(argmax(digits)) == {2, 5, 8}
    assert (np.diff(expected(digits)) > 0).all()


def test_a_reply_shows_its_digits_or_only_the_best():
    digits = np.array([[0.0, 0.75, 0.25], [1.0, 0.0, 0.0]])
    shown = replies(digits, provider="test")
    assert [reply.digits for reply in shown] == [{"2": 0.75, "3": 0.25}, {"1": 1.0}]
    hidden = replies(digits, provider="test", logprobs=False)
    assert [(reply.digits, reply.text) for reply in hidden] == [({}, "2"), ({}, "1")]
