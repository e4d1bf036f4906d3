"""Targets: from judgments to the matrices a student is trained towards.

A group's scores become a similarity matrix S in [0, 1] with unit diagonal, which need not be a kernel; its
projection with unit diagonal is the target kernel K. In reading order: `similarity_matrices` (the judge's),
`from_labels` and `shuffled` (what they are compared with), `Targets`, `make_targets`, `target_metrics`,
`save_targets`, `load_targets`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ask.judges.verdict import scores
from ask.kernels import negative_mass, project_psd, target_kernel

SAME_SCORE = 1e-9  # rounding of an expectation


class ScoreError(ValueError):
    """A score is missing, outside the scale, or not the same in both orders; the message names the pair."""


def similarity_matrices(
    judgments: pd.DataFrame,  # one row per pair, as `elicitation.elicit` returns them; others do no harm
    groups: np.ndarray,  # (g, b) rows of the manifest
    hashes: Mapping[int, str] | Sequence[str],  # row -> hash of its picture
    *,
    rule: str = "expected",
    scale: int = 9,  # V
) -> Tensor:  # (g, b, b) float64 in [0, 1], symmetric, unit diagonal
    """The judge's similarities, S_ij = (s_ij - 1) / (V - 1) and S_ii = 1.

    ASK, section 2.1. A pair's one score fills both entries; two rows with the same picture are as alike as a
    picture and itself. Nothing is projected here.

    Raises:
        ScoreError: if a pair has no score, one outside [1, V], or different ones in its two orders.
        ValueError: for a rule other than expected, rounded or argmax.
    """
    images = pd.Index(sorted({hashes[row] for row in np.unique(groups)}))
    score = _score_by_pair(judgments.assign(score=scores(judgments, rule)), images, scale)
    shown = np.array([[hashes[row] for row in group] for group in groups])  # (g, b)
    left, right = np.broadcast_arrays(shown[:, :, None], shown[:, None, :])  # (g, b, b)
    found = score.reindex(_codes(images, left.ravel(), right.ravel())).to_numpy().reshape(left.shape)
    similarity = np.where(left == right, 1.0, (found - 1) / (scale - 1))
    if missing := np.argwhere(np.isnan(np.triu(similarity))).tolist():
        group, i, j = missing[0]
        first = f"rows {groups[group][i]} and {groups[group][j]} of group {group}"
        raise ScoreError(
            f"{len(missing)} pairs have no score, first {first}; elicit them before making targets"
        )
    return torch.from_numpy(similarity)


def from_labels(
    labels: Mapping[int, str] | Sequence[str],  # row -> class
    groups: np.ndarray,  # (g, b) rows of the manifest
) -> Tensor:  # (g, b, b) float64, 0 or 1
    """Binary similarities, S_ij = 1 where the classes agree (ASK, E.1)."""
    shown = np.array([[labels[row] for row in group] for group in groups])
    return torch.from_numpy(shown[:, :, None] == shown[:, None, :]).double()


def shuffled(
    similarity: Tensor,  # (g, b, b) symmetric
    *,
    seed: int,
) -> Tensor:  # (g, b, b) symmetric, the diagonal unchanged
    """The same scores for other pairs: per group, a symmetric permutation of the off-diagonal (ASK, C.2)."""
    size = similarity.shape[-1]
    i, j = torch.triu_indices(size, size, offset=1)
    generator = torch.Generator().manual_seed(seed)
    result = similarity.clone()
    for group, source in zip(result, similarity, strict=True):
        group[i, j] = source[i, j][torch.randperm(len(i), generator=generator)]
        group[j, i] = group[i, j]
    return result


@dataclass(frozen=True)
class Targets:
    """What training reads: similarities, target kernels, and the pictures they are of."""

    similarity: Tensor  # (g, b, b) float64, S
    kernel: Tensor  # (g, b, b) float64, K
    groups: np.ndarray  # (g, b) rows of the manifest


def make_targets(
    similarity: Tensor,  # (g, b, b) symmetric, unit diagonal
    groups: np.ndarray,  # (g, b) rows of the manifest
) -> Targets:
    """Projects similarities to target kernels.

    Raises:
        NotSymmetricError: if a matrix is not symmetric.
        ValueError: if there is not one matrix per group.
    """
    if similarity.shape != (*groups.shape, groups.shape[-1]):
        raise ValueError(
            f"groups of shape {groups.shape} do not fit similarities of shape {tuple(similarity.shape)}"
        )
    return Targets(similarity, target_kernel(similarity), groups)


def target_metrics(targets: Targets) -> dict[str, float]:
    """How far the similarities were from kernels, and what making them kernels changed; means over groups.

    ``negative_mass`` is that of S, in [0, 1); ``diagonal_growth`` the projected diagonal minus one;
    ``offdiagonal_shrinkage`` the off-diagonal of S minus that of K.
    """
    off = ~torch.eye(targets.similarity.shape[-1], dtype=torch.bool)
    grown = project_psd(targets.similarity).diagonal(dim1=-2, dim2=-1)
    return {
        "negative_mass": negative_mass(targets.similarity).mean().item(),
        "diagonal_growth": (grown - 1).mean().item(),
        "offdiagonal_mean": targets.similarity[:, off].mean().item(),
        "offdiagonal_shrinkage": (targets.similarity - targets.kernel)[:, off].mean().item(),
    }


def save_targets(targets: Targets, path: Path) -> None:
    """Writes ``targets.npz`` with S, K and groups, complete or not at all; equal targets give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid4().hex}.partial")
    with partial.open("wb") as file:
        arrays = {"S": targets.similarity.numpy(), "K": targets.kernel.numpy(), "groups": targets.groups}
        np.savez_compressed(file, **arrays)
    os.replace(partial, path)


def load_targets(path: Path) -> Targets:
    """Reads what `save_targets` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        return Targets(torch.from_numpy(stored["S"]), torch.from_numpy(stored["K"]), stored["groups"])


def _score_by_pair(judgments: pd.DataFrame, images: pd.Index, scale: int) -> pd.Series:
    """The one score of each pair of the images, indexed by its code; nan where the judge gave none."""
    table = judgments[judgments["first_hash"].isin(images) & judgments["second_hash"].isin(images)]
    if not (inside := table["score"].between(1, scale) | table["score"].isna()).all():
        raise ScoreError(f"{_named(table[~inside])} is outside [1, {scale}]; check the judge's replies")
    by_pair = table["score"].groupby(_codes(images, table["first_hash"], table["second_hash"]))
    if (gap := by_pair.transform("max") - by_pair.transform("min")).gt(SAME_SCORE).any():
        contradicted = _named(table[gap > SAME_SCORE])
        raise ScoreError(f"{contradicted} is another in the other order; average the two orders first")
    return by_pair.first()


def _codes(
    images: pd.Index, first: Sequence[str], second: Sequence[str]
) -> np.ndarray:  # (n,) one number per pair
    """The same number for both orders of a pair of known pictures."""
    one, other = images.get_indexer(first), images.get_indexer(second)
    return np.minimum(one, other) * len(images) + np.maximum(one, other)


def _named(judgments: pd.DataFrame) -> str:
    row = judgments.iloc[0]
    return f"score {row['score']:.4g} of rows {row['first_row']} and {row['second_row']}"
