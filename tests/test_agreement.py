import numpy as np
import pandas as pd
import pytest

from ask.agreement import consistency, disputed, opinions, scores, summary


def judged(scores, *, order=1, cost=2_000):
    """Judgments of the pairs (p0, q0), (p1, q1), ... with these scores."""
    hashes = [(f"p{n}", f"q{n}")[::order] for n in range(len(scores))]
    table = pd.DataFrame(hashes, columns=["first_hash", "second_hash"])
    return table.assign(score=scores, entropy=1.0, mass=0.5, cost=cost)


def test_a_summary_counts_what_is_known_and_how_it_is_spread():
    found = summary(judged([1.4, 1.6, 8.0, np.nan]))
    assert (found["judgments"], found["images"], found["unanswered"]) == (4, 8, 1)
    assert found["coverage"] == 4 / 28 and found["dollars"] == 0.008
    assert found["bits"] == pytest.approx(np.log2(3)) and found["score"] == pytest.approx(11 / 3)


def test_a_judge_that_says_the_same_of_everything_has_no_bits():
    assert summary(judged([5.0, 5.2, 4.8]))["bits"] == 0


def test_the_other_order_is_joined_by_pair_and_unanswered_pairs_do_not_count():
    there = judged([1.0, 3.0, 5.0, np.nan, 9.0])
    back = judged([2.0, 3.0, np.nan, 4.0, 8.0], order=-1).iloc[::-1]
    found = consistency(there, back)
    assert found["order_spearman"] == 1 and found["order_mean_absolute"] == pytest.approx(2 / 3)


def test_judges_stand_side_by_side_with_their_agreement():
    tables = {"one": judged([1.0, 3.0, 5.0]), "two": judged([2.0, 1.0, 9.0])}
    turned = {name: judged([1.0, 2.0, 6.0], order=-1) for name in tables}
    found = opinions(tables, turned)
    assert found.loc["agreement with one", "one"] == 1
    assert found.loc["agreement with two", "one"] == found.loc["agreement with one", "two"] == 0.5
    assert list(scores(tables).columns) == ["one", "two"]


def test_the_most_disputed_pairs_come_first_and_unanswered_ones_last():
    tables = {"one": judged([1.0, 5.0, np.nan, 2.0]), "two": judged([9.0, 5.0, 1.0, 3.0])}
    assert disputed(tables, 3).tolist() == [0, 3, 1]
