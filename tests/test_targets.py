import numpy as np
import pandas as pd
import pytest
import torch

from ask.judges.verdict import PROBABILITIES
from ask.kernels import NotSymmetricError, negative_mass
from ask.targets import (
    ScoreError,
    from_labels,
    load_targets,
    make_targets,
    save_targets,
    shuffled,
    similarity_matrices,
    target_metrics,
)

HASHES = ["d", "b", "a", "c", "e"]
GROUPS = np.array([[0, 1, 2], [3, 1, 4]])


def judgments(scores: dict[str, float], method="parsed") -> pd.DataFrame:
    rows = [
        {
            "first_hash": pair[0],
            "second_hash": pair[1],
            "first_row": HASHES.index(pair[0]),
            "second_row": HASHES.index(pair[1]),
            "score": score,
            "method": method,
        }
        for pair, score in scores.items()
    ]
    return pd.DataFrame(rows).assign(**dict.fromkeys(PROBABILITIES, float("nan")))


SCORES = {"ab": 1.0, "ad": 5.0, "bd": 9.0, "bc": 3.0, "be": 7.0, "ce": 2.0}


@pytest.fixture
def random_similarity():
    values = torch.rand(5, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    similarity = (values + values.mT) / 2
    similarity.diagonal(dim1=-2, dim2=-1).fill_(1)
    return similarity


def test_scores_become_similarities_at_both_places_with_unit_diagonal():
    similarity = similarity_matrices(judgments(SCORES), GROUPS, HASHES)
    assert similarity.tolist() == [
        [[1, 1, 0.5], [1, 1, 0], [0.5, 0, 1]],
        [[1, 0.25, 0.125], [0.25, 1, 0.75], [0.125, 0.75, 1]],
    ]


def test_the_order_shown_and_further_judgments_do_not_matter():
    turned = judgments({pair[::-1]: score for pair, score in SCORES.items()} | {"ae": 99.0})
    found = similarity_matrices(turned[turned["score"] < 10], GROUPS, HASHES)
    assert torch.equal(found, similarity_matrices(judgments(SCORES), GROUPS, HASHES))


def test_one_group_of_everything_is_the_whole_matrix():
    table = judgments({first + second: 5.0 for first in "abcde" for second in "abcde" if first < second})
    similarity = similarity_matrices(table, np.arange(5)[None], HASHES)
    assert similarity.shape == (1, 5, 5)
    assert similarity[0].sum() == 5 + 20 * 0.5


def test_the_rule_reads_the_stored_digits():
    table = judgments({"ab": 4.3}, method="expected")
    table[["p1", "p6", "p7"]] = 0.4, 0.3, 0.3
    pair = [[1, 2]]
    found = {
        rule: similarity_matrices(table, np.array(pair), HASHES, rule=rule)[0, 0, 1].item()
        for rule in ("expected", "rounded", "argmax")
    }
    assert found == pytest.approx({"expected": 3.3 / 8, "rounded": 3 / 8, "argmax": 0})
    with pytest.raises(ValueError, match="verdict must be one of expected, rounded, argmax"):
        similarity_matrices(table, np.array(pair), HASHES, rule="median")


def test_the_same_picture_under_two_rows_is_as_alike_as_itself():
    similarity = similarity_matrices(judgments({"ab": 3.0}), np.array([[0, 1, 2]]), ["a", "b", "a"])
    assert similarity[0].tolist() == [[1, 0.25, 1], [0.25, 1, 0.25], [1, 0.25, 1]]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"bd": 9.7}, "score 9.7 of rows 1 and 0 is outside [1, 9]; check the judge's replies"),
        ({"bd": 0.0}, "score 0 of rows 1 and 0 is outside [1, 9]; check the judge's replies"),
        ({"eb": 4.0}, "score 7 of rows 1 and 4 is another in the other order; average the two orders first"),
        (
            {"bd": float("nan")},
            "1 pairs have no score, first rows 0 and 1 of group 0; elicit them before making targets",
        ),
    ],
)
def test_a_score_that_cannot_be_used_is_named(changed, told):
    with pytest.raises(ScoreError) as refusal:
        similarity_matrices(judgments(SCORES | changed), GROUPS, HASHES)
    assert str(refusal.value) == told


def test_missing_pairs_are_counted():
    few = judgments({pair: score for pair, score in SCORES.items() if "b" not in pair})
    with pytest.raises(ScoreError, match="4 pairs have no score, first rows 0 and 1 of group 0"):
        similarity_matrices(few, GROUPS, HASHES)


def test_labels_make_binary_similarities():
    labels = dict(enumerate(["cat", "dog", "cat", "dog", "cow"]))
    assert from_labels(labels, GROUPS)[0].tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_shuffling_permutes_each_groups_pairs_among_themselves(random_similarity):
    other = shuffled(random_similarity, seed=0)
    assert torch.equal(other, other.mT)
    assert torch.equal(other.diagonal(dim1=-2, dim2=-1), random_similarity.diagonal(dim1=-2, dim2=-1))
    upper = torch.triu_indices(16, 16, offset=1)
    before, after = (matrix[:, upper[0], upper[1]] for matrix in (random_similarity, other))
    assert torch.equal(before.sort().values, after.sort().values)
    for one, two in zip(before, after, strict=True):
        assert abs(np.corrcoef(one, two)[0, 1]) < 0.3


def test_shuffling_follows_from_the_seed_and_leaves_its_input_alone(random_similarity):
    kept = random_similarity.clone()
    assert torch.equal(shuffled(random_similarity, seed=1), shuffled(random_similarity, seed=1))
    assert not torch.equal(shuffled(random_similarity, seed=1), shuffled(random_similarity, seed=2))
    assert torch.equal(random_similarity, kept)
    assert torch.equal(shuffled(random_similarity[:2], seed=1), shuffled(random_similarity, seed=1)[:2])


def test_targets_are_kernels_and_say_what_that_changed(random_similarity):
    targets = make_targets(random_similarity, np.arange(80).reshape(5, 16))
    assert torch.linalg.eigvalsh(targets.kernel).min() > -1e-9
    told = target_metrics(targets)
    assert told["negative_mass"] == pytest.approx(negative_mass(random_similarity).mean().item())
    assert told["negative_mass"] > 0.05
    off = ~torch.eye(16, dtype=bool)
    before, after = random_similarity[:, off].mean(), targets.kernel[:, off].mean()
    assert told["offdiagonal_mean"] == pytest.approx(before.item())
    assert told["offdiagonal_shrinkage"] == pytest.approx((before - after).item())
    assert told["offdiagonal_shrinkage"] > 0
    values, vectors = np.linalg.eigh(random_similarity[0].numpy())
    grown = np.diag(vectors * np.maximum(values, 0) @ vectors.T) - 1
    alone = target_metrics(make_targets(random_similarity[:1], np.arange(16)[None]))
    assert alone["diagonal_growth"] == pytest.approx(grown.mean())


def test_what_is_a_kernel_already_stays_as_it_is():
    targets = make_targets(
        from_labels(["a", "a", "b", "b"], np.array([[0, 1, 2, 3]])), np.array([[0, 1, 2, 3]])
    )
    assert torch.allclose(targets.kernel, targets.similarity)
    told = target_metrics(targets)
    assert [told[k] for k in ("negative_mass", "diagonal_growth", "offdiagonal_shrinkage")] == pytest.approx(
        [0, 0, 0], abs=1e-12
    )


def test_a_matrix_that_is_not_symmetric_or_not_the_groups_is_refused(random_similarity):
    groups = np.arange(80).reshape(5, 16)
    random_similarity[2, 3, 4] += 0.12
    with pytest.raises(NotSymmetricError, match=r"max \|S - S\^T\| = 0.12"):
        make_targets(random_similarity, groups)
    with pytest.raises(
        ValueError, match=r"groups of shape \(4, 16\) do not fit similarities of shape \(5, 16, 16\)"
    ):
        make_targets(random_similarity, groups[:4])


def test_targets_survive_a_file_whose_bytes_do_not_change(tmp_path, random_similarity):
    targets = make_targets(random_similarity, np.arange(80).reshape(5, 16))
    for folder in ("one", "two"):
        save_targets(targets, tmp_path / folder / "targets.npz")
    assert (tmp_path / "one/targets.npz").read_bytes() == (tmp_path / "two/targets.npz").read_bytes()
    loaded = load_targets(tmp_path / "one/targets.npz")
    assert torch.equal(loaded.similarity, targets.similarity)
    assert torch.equal(loaded.kernel, targets.kernel)
    assert np.array_equal(loaded.groups, targets.groups)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["targets.npz"]
