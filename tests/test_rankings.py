"""Rankings against some worked out by hand, and against double loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ask.metrics import NoInformationError
from ask.rankings import (
    average_precision,
    mean_average_precision,
    ndcg_at_k,
    precision_at_k,
    ranking,
    recall_at_k,
)

many = settings(max_examples=40, deadline=None, derandomize=True)


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    matrix = np.random.default_rng(seed).random((n, n))
    return (matrix + matrix.T) / 2


# Image 0 asks. By similarity the others come as 1, 3, 2, 4; of them 3 and 2 are relevant, at ranks 2 and 3.
FIVE = {"similarity": np.array([[1.0, 0.9, 0.5, 0.7, 0.1]]), "relevance": np.array([[1, 0, 1, 1, 0]]) > 0}
IDS = {"query_ids": np.array([0]), "gallery_ids": np.arange(5)}


def test_a_ranking_of_five_is_known():
    ranked = ranking(**FIVE, **IDS)
    assert ranked.relevance.tolist() == [[False, True, True, False, False]]
    assert ranked.queries.tolist() == [0] and ranked.skipped == 0
    assert average_precision(ranked).tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])
    assert [recall_at_k(ranked, k).item() for k in (1, 2, 5)] == [0, 1, 1]
    assert [precision_at_k(ranked, k).item() for k in (1, 2, 3, 4)] == pytest.approx([0, 1 / 2, 2 / 3, 1 / 2])
    ideal = 1 + 1 / math.log2(3)
    assert ndcg_at_k(ranked, 2).tolist() == pytest.approx([1 / math.log2(3) / ideal])
    assert ndcg_at_k(ranked, 4).tolist() == pytest.approx([(1 / math.log2(3) + 1 / 2) / ideal])


def test_graded_relevance_has_linear_gain():
    # In retrieved order 0, 1, 0.25, 0.5; at its best 1, 0.5, 0.25.
    ranked = ranking(FIVE["similarity"], np.array([[9.0, 0, 0.25, 1, 0.5]]), **IDS)
    gained = 1 / math.log2(3) + 0.25 / 2
    assert ndcg_at_k(ranked, 3).tolist() == pytest.approx([gained / (1 + 0.5 / math.log2(3) + 0.25 / 2)])
    for metric in (average_precision, mean_average_precision, lambda r: recall_at_k(r, 1)):
        with pytest.raises(ValueError, match=r"must be 0 or 1 here, but holds 0.25 and 1.0; use ndcg_at_k"):
            metric(ranked)


def test_all_relevant_images_divide_the_average_precision():
    # As in a class of twenty: R = 19 others, of which ten lead and nine come last.
    relevance = np.array([[True] * 11 + [False] * 30 + [True] * 9])
    ranked = ranking(-np.arange(50.0)[None], relevance, query_ids=[0], gallery_ids=np.arange(50))
    expected = (10 + sum((10 + i) / (40 + i) for i in range(1, 10))) / 19
    assert mean_average_precision(ranked) == pytest.approx(expected)


def test_the_query_is_excluded_by_id_even_where_a_duplicate_outranks_it():
    similarity = np.array([[0.99, 1.0, 0.5]])
    ranked = ranking(similarity, np.array([[1, 0, 1]]), query_ids=["b"], gallery_ids=["b", "a", "c"])
    assert ranked.relevance.tolist() == [[0, 1, 0]]


def test_a_query_from_outside_the_gallery_excludes_nothing():
    for stranger in ("aa", "z"):
        ranked = ranking(
            np.array([[0.9, 0.5]]), np.array([[0, 1]]), query_ids=[stranger], gallery_ids=["b", "c"]
        )
        assert ranked.relevance.tolist() == [[0, 1]]


def test_ties_are_broken_by_id_whatever_the_order_of_columns():
    ids, relevance = np.array(["q", "d", "a", "c", "b"]), np.array([0, 4, 1, 3, 2])
    for order in ([0, 1, 2, 3, 4], [3, 1, 4, 0, 2], [4, 3, 2, 1, 0]):
        similarity = np.full((1, 5), 0.5)
        ranked = ranking(similarity, relevance[None, order], query_ids=["q"], gallery_ids=ids[order])
        assert ranked.relevance.tolist() == [[1, 2, 3, 4, 0]]


def test_a_query_with_nothing_to_find_is_skipped_and_counted():
    labels = np.array([0, 0, 1, 2, 2])
    ranked = ranking(symmetric(5), labels[:, None] == labels[None, :])
    assert ranked.queries.tolist() == [0, 1, 3, 4] and ranked.skipped == 1
    assert len(average_precision(ranked)) == len(ndcg_at_k(ranked, 2)) == 4
    with pytest.raises(
        NoInformationError, match=r"none of 5 queries has a relevant image in its gallery; check"
    ):
        ranking(symmetric(5), np.eye(5) > 0)


def test_only_eligible_images_are_ranked_counted_and_ideal():
    # Without images 1 and 2 image 3 leads; 4 follows.
    eligible = np.array([[True, False, False, True, True]])
    ranked = ranking(FIVE["similarity"], np.array([[1, 5, 5, 1, 2]]), **IDS, eligible=eligible)
    assert ranked.relevance.tolist() == [[1, 2, 0, 0, 0]]
    assert ndcg_at_k(ranked, 3).tolist() == pytest.approx([(1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))])
    assert eligible.all(0).sum() == 3  # the argument is left alone, the query's own column too


def by_loops(similarity, relevance, k):
    """AP, hit rate, P@k and nDCG@k of every query that has something to find, in plain Python."""
    rows = []
    for i in range(len(similarity)):
        others = sorted((j for j in range(len(similarity)) if j != i), key=lambda j: (-similarity[i][j], j))
        gains = [float(relevance[i][j]) for j in others]
        if any(gains):
            hits = [rank for rank, gain in enumerate(gains, 1) if gain]
            precision = sum(sum(h <= rank for h in hits) / rank for rank in hits) / len(hits)
            ideal = sum(g / math.log2(r + 1) for r, g in enumerate(sorted(gains, reverse=True)[:k], 1))
            gained = sum(g / math.log2(r + 1) for r, g in enumerate(gains[:k], 1))
            first = sum(gain > 0 for gain in gains[:k])
            rows.append((precision, float(first > 0), first / k, gained / ideal))
    return np.array(rows)


@many
@given(st.integers(0, 10_000), st.integers(3, 9), st.integers(1, 3), st.booleans())
def test_every_retrieval_metric_agrees_with_loops_also_under_ties(seed, n, classes, single):
    rng = np.random.default_rng(seed)
    similarity = rng.integers(0, 4, (n, n)) / 4  # many ties
    labels = rng.integers(0, classes, n)
    relevance = labels[:, None] == labels[None, :]
    expected = by_loops(similarity.tolist(), relevance.tolist(), 2)
    if len(expected):
        ranked = ranking(similarity.astype(np.float32 if single else np.float64), torch.tensor(relevance))
        measured = [
            average_precision(ranked),
            recall_at_k(ranked, 2),
            precision_at_k(ranked, 2),
            ndcg_at_k(ranked, 2),
        ]
        np.testing.assert_allclose(np.transpose(measured), expected)
        assert mean_average_precision(ranked) == pytest.approx(expected[:, 0].mean())
        assert ranked.skipped == n - len(expected)


@many
@given(st.integers(0, 10_000))
def test_average_precision_sees_order_only_and_is_one_for_a_perfect_order(seed):
    similarity, labels = symmetric(8, seed), np.arange(8) % 3
    relevance = labels[:, None] == labels[None, :]
    once, cubed = (average_precision(ranking(s, relevance)) for s in (similarity, similarity**3))
    np.testing.assert_array_equal(once, cubed)
    assert mean_average_precision(ranking(similarity + 2 * relevance, relevance)) == 1


@pytest.mark.parametrize("metric", [recall_at_k, precision_at_k, ndcg_at_k])
@pytest.mark.parametrize("k", [0, 6])
def test_a_cut_off_outside_the_gallery_is_refused(metric, k):
    with pytest.raises(ValueError, match=rf"k must be in 1..5, the gallery, but is {k}; lower the cut-off"):
        metric(ranking(**FIVE, **IDS), k)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"query_ids": None},
            r"1 queries of 5 images need query_ids and gallery_ids, but came without; a query is",
        ),
        (
            {"gallery_ids": [0, 1, 2, 3, 3]},
            r"and 5 different gallery ids, but came with 1 and 4; name every image",
        ),
        ({"query_ids": [0, 1]}, r"need 1 query ids and 5 different gallery ids, but came with 2 and 5"),
        (
            {"relevance": np.ones((1, 4))},
            r"must both be \(q, n\), but are \(1, 5\) and \(1, 4\); put both in the",
        ),
        (
            {"relevance": -np.ones((1, 5))},
            r"similarity must be finite and relevance >= 0, but one is not; look",
        ),
        ({"similarity": np.full((1, 5), np.nan)}, r"similarity must be finite and relevance >= 0"),
    ],
)
def test_a_ranking_refuses_what_does_not_fit(changed, message):
    with pytest.raises(ValueError, match=message):
        ranking(**(FIVE | IDS | changed))
