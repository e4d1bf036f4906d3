"""The metrics against rankings worked out by hand, double loops, and scipy."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ask.metrics import (
    NoInformationError,
    average_precision,
    class_text_features,
    clustered_bootstrap,
    fidelity,
    judge_agreement,
    mean_average_precision,
    ndcg_at_k,
    pearson_fidelity,
    precision_at_k,
    ranking,
    recall_at_k,
    sign_flip_test,
    zero_shot_accuracy,
)

many = settings(max_examples=40, deadline=None, derandomize=True)


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    matrix = np.random.default_rng(seed).random((n, n))
    return (matrix + matrix.T) / 2


# --- fidelity ---


def test_fidelity_ranks_each_unordered_pair_once_and_never_the_diagonal():
    student, judged = symmetric(6), symmetric(6, seed=1)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    expected = stats.spearmanr([student[p] for p in pairs], [judged[p] for p in pairs]).statistic
    assert fidelity(student, judged) == pytest.approx(expected)
    linear = stats.pearsonr([student[p] for p in pairs], [judged[p] for p in pairs]).statistic
    assert pearson_fidelity(student, judged) == pytest.approx(linear)
    np.fill_diagonal(student, 40.0)
    assert fidelity(student, judged) == pytest.approx(expected)


def test_fidelity_of_four_images_with_ties_is_known():
    # The pairs 01, 02, 03, 12, 13, 23 rank 1 2 3 4 5 6 for the student and 1.5 1.5 3 4.5 4.5 6 for the judge.
    student, judged = np.zeros((4, 4)), np.zeros((4, 4))
    upper = np.triu_indices(4, 1)
    student[upper], judged[upper] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 4, 7, 7, 9]
    student, judged = student + student.T, judged + judged.T
    assert fidelity(student, judged) == pytest.approx(33 / 2 / math.sqrt(35 / 2 * 33 / 2))


@many
@given(st.integers(0, 10_000), st.integers(4, 8))
def test_fidelity_sees_order_only_and_does_not_mind_the_order_of_images(seed, n):
    student, judged = symmetric(n, seed), symmetric(n, seed + 1)
    expected = fidelity(student, judged)
    assert fidelity(student**3, 1 + 8 * judged) == pytest.approx(expected)
    assert fidelity(student, -judged) == pytest.approx(-expected)
    order = np.random.default_rng(seed).permutation(n)
    assert fidelity(student[np.ix_(order, order)], judged[np.ix_(order, order)]) == pytest.approx(expected)


def test_pairs_may_be_listed_or_masked_in_any_order_and_repeatedly():
    student, judged = symmetric(6), symmetric(6, seed=1)
    chosen = [(0, 1), (4, 2), (3, 5), (1, 5)]
    expected = stats.spearmanr([student[p] for p in chosen], [judged[p] for p in chosen]).statistic
    assert fidelity(student, judged, pairs=np.array(chosen)) == pytest.approx(expected)
    assert fidelity(student, judged, pairs=np.array([*chosen, (1, 0), (2, 4)])) == pytest.approx(expected)
    mask = np.eye(6, dtype=bool)
    mask[tuple(zip(*chosen, strict=True))] = True
    judged[~(mask | mask.T)] = np.nan  # pairs that nobody asked for need no score
    assert fidelity(torch.tensor(student), torch.tensor(judged), pairs=torch.tensor(mask)) == pytest.approx(
        expected
    )


def test_fidelity_does_not_depend_on_the_kind_of_array():
    student, judged = torch.tensor(symmetric(6)).float().requires_grad_(), torch.tensor(symmetric(6, 1))
    expected = fidelity(student.detach().numpy(), judged.numpy())
    assert fidelity(student, judged) == expected
    assert isinstance(expected, float)
    assert fidelity(student.bfloat16(), judged) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("correlation", [fidelity, pearson_fidelity])
def test_a_constant_side_is_named_and_carries_no_information(correlation):
    scores = symmetric(5)
    with pytest.raises(
        NoInformationError, match=r"^judged must tell pairs apart, but scores all 10 of them 5;"
    ):
        correlation(scores, np.full((5, 5), 5))
    # A collapsed student differs from itself by the rounding of float32 only, which is no ranking.
    collapsed = (1 + 2e-7 * symmetric(5)).astype(np.float32)
    with pytest.raises(
        NoInformationError, match=r"^student must tell pairs apart, but scores all 10 of them 1;"
    ):
        correlation(collapsed, scores)
    with pytest.raises(
        NoInformationError, match=r"^student must score two pairs or more, not 1; choose more"
    ):
        correlation(scores, scores, pairs=np.array([[0, 1]]))


def test_fidelity_refuses_what_it_would_misread():
    scores, broken = symmetric(4), symmetric(4)
    broken[0, 1] = np.nan
    with pytest.raises(ValueError, match=r"^judged must score every pair, but 1 are nan; choose others"):
        fidelity(scores, broken)
    with pytest.raises(ValueError, match=r"^judged must be symmetric, but \|S - S\^T\| = [0-9.]+; average"):
        fidelity(scores, np.triu(scores))
    with pytest.raises(
        ValueError, match=r"must both be \(n, n\), but are \(4, 4\) and \(3, 3\); put both in"
    ):
        fidelity(scores, scores[:3, :3])
    with pytest.raises(ValueError, match=r"a pair must be of two images, but 1 join one with itself; drop"):
        fidelity(scores, scores, pairs=np.array([[0, 1], [2, 2]]))
    with pytest.raises(ValueError, match=r"or an \(4, 4\) bool mask, but is float64 \(4, 4\); leave it out"):
        fidelity(scores, scores, pairs=scores)


# --- retrieval ---

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


# --- recognition ---


def test_a_class_text_is_the_normalized_mean_of_its_normalized_prompts():
    prompts = [torch.tensor([[3.0, 0], [0, 10]]), torch.tensor([[0.0, -2]])]
    expected = torch.tensor([[math.sqrt(0.5), math.sqrt(0.5)], [0, -1]])
    torch.testing.assert_close(class_text_features(prompts), expected)


def test_accuracy_counts_images_nearest_to_the_text_of_their_class():
    texts = torch.eye(3)
    images = torch.nn.functional.normalize(
        torch.tensor([[2.0, 1, 0], [1, 3, 0], [1, 0, 2], [1, 1, 0]]), dim=-1
    )
    assert (
        zero_shot_accuracy(images, texts, torch.tensor([0, 1, 0, 0])) == 0.75
    )  # a tie goes to the first class
    assert zero_shot_accuracy(images.bfloat16(), texts.bfloat16(), np.array([1, 1, 2, 1])) == 0.5


def test_accuracy_refuses_lengths_that_would_change_the_winner_and_labels_without_a_text():
    texts = torch.eye(3)
    with pytest.raises(ValueError, match=r"text features must have norm 1, but one is off by 4; normalize"):
        zero_shot_accuracy(texts, 5 * texts, torch.arange(3))
    with pytest.raises(
        ValueError, match=r"labels must be 3 numbers in 0..2, but are 3 in 1..3; use the class"
    ):
        zero_shot_accuracy(texts, texts, torch.arange(1, 4))
    with pytest.raises(ValueError, match=r"labels must be 3 numbers in 0..2, but are 2 in 0..1"):
        zero_shot_accuracy(texts, texts, torch.arange(2))


# --- agreement and chance ---


def test_agreement_of_two_judges_on_five_pairs_is_known():
    first, second = np.array([1.0, 2, 3.4, 5, 9]), np.array([1.4, 4, 2.5, 5.5, 7])
    agreement = judge_agreement(first, second)
    assert agreement == {
        "spearman": pytest.approx(0.9),
        "pearson": pytest.approx(stats.pearsonr(first, second).statistic),
        "mean_absolute": pytest.approx((0.4 + 2 + 0.9 + 0.5 + 2) / 5),
        "rmse": pytest.approx(math.sqrt((0.16 + 4 + 0.81 + 0.25 + 4) / 5)),
        "exact": pytest.approx(2 / 5),  # 1 and 1.4; 3.4 and 2.5, which rounds up
        "within_one": pytest.approx(3 / 5),  # also 5 and 5.5
    }
    assert judge_agreement(second, first) == agreement


def test_agreement_with_a_judge_that_always_says_the_same_is_no_information():
    scores = np.array([1.0, 5, 9])
    with pytest.raises(
        NoInformationError, match=r"^second must tell pairs apart, but scores all 3 of them 5;"
    ):
        judge_agreement(scores, np.array([5, 5, 5]))
    for other in (scores[:2], np.array([1.0, np.nan, 9])):
        with pytest.raises(ValueError, match=r"must have scored the same pairs, but came with \(3,\) and"):
            judge_agreement(scores, other)


def test_the_sign_flip_test_of_a_few_queries_is_exact():
    differences = np.array([0.3, -0.1, 0.4, 0.2])
    means = [abs(np.mean(differences * signs)) for signs in product((-1, 1), repeat=4)]
    expected = np.mean([mean >= means[-1] - 1e-12 for mean in means])
    assert sign_flip_test(differences, seed=0) == pytest.approx(expected)
    assert sign_flip_test(-differences, seed=0) == pytest.approx(expected)


def test_the_sign_flip_test_of_many_queries_tells_a_gain_from_chance_and_is_never_zero():
    noise = np.random.default_rng(0).normal(size=400)
    assert sign_flip_test(noise + 1, seed=0) == pytest.approx(1 / 10_001)
    chance = sign_flip_test(noise - noise.mean() + 0.05, seed=0)
    assert chance == pytest.approx(2 * stats.norm.sf(0.05 * 20 / noise.std()), abs=0.03)
    assert chance == sign_flip_test(noise - noise.mean() + 0.05, seed=0)
    assert sign_flip_test(np.zeros(20), seed=0) == 1


def test_the_bootstrap_of_clusters_of_one_agrees_with_scipy():
    differences = np.random.default_rng(0).normal(0.2, 1, 150)
    low, high = clustered_bootstrap(differences, np.arange(150), seed=0)
    theirs = stats.bootstrap((differences,), np.mean, method="percentile", rng=np.random.default_rng(1))
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)
    assert (low, high) == clustered_bootstrap(differences, np.arange(150), seed=0)
    assert (low, high) != clustered_bootstrap(differences, np.arange(150), seed=1)


def test_the_bootstrap_of_two_clusters_can_only_draw_three_means():
    # Both clusters (chance 1/2), twice the first (1/4) or twice the second (1/4); the mean is over queries.
    differences, species = np.array([0.0, 0, 0, 1]), ["crow", "crow", "crow", "wren"]
    assert clustered_bootstrap(differences, np.array(species), seed=0) == (0, 1)
    assert clustered_bootstrap(differences, np.array(species), level=0.2, seed=0) == (0.25, 0.25)


def test_repeating_every_query_of_a_cluster_does_not_narrow_the_interval():
    differences, clusters = np.random.default_rng(0).normal(size=30), np.arange(30)
    once = clustered_bootstrap(differences, clusters, seed=0)
    assert clustered_bootstrap(np.tile(differences, 5), np.tile(clusters, 5), seed=0) == pytest.approx(once)


def test_the_bootstrap_refuses_what_it_cannot_resample():
    with pytest.raises(ValueError, match=r"needs two clusters, but all queries are in \['wren'\]; resample"):
        clustered_bootstrap(np.arange(3.0), np.array(["wren"] * 3), seed=0)
    with pytest.raises(
        ValueError, match=r"each difference needs a cluster, but there are 3 and 2; take both at"
    ):
        clustered_bootstrap(np.arange(3.0), np.arange(2), seed=0)
