"""The metrics against numbers worked out by hand, double loops, and scipy."""

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
    class_text_features,
    clustered_bootstrap,
    fidelity,
    judge_agreement,
    pearson_fidelity,
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
