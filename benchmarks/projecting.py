"""Target kernels of all groups at once against a loop over groups in NumPy."""

import numpy as np
import torch

from ask.kernels import target_kernel
from benchmarks.measure import interleaved, table


def groups_of(count: int, b: int = 32) -> torch.Tensor:  # (count, b, b)
    """Judgments that are symmetric and not PSD."""
    scores = torch.rand(count, b, b, generator=torch.Generator().manual_seed(0)).double()
    similarity = (scores + scores.mT) / 2
    similarity.diagonal(dim1=1, dim2=2).fill_(1)
    return similarity


def by_numpy(similarity: np.ndarray) -> np.ndarray:
    """Projection and unit diagonal, one group at a time."""
    kernels = []
    for matrix in similarity:
        values, vectors = np.linalg.eigh(matrix)
        projected = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        scale = np.sqrt(np.diag(projected))
        kernels.append(projected / np.outer(scale, scale))
    return np.stack(kernels)


def projection(count: int = 93, repeats: int = 15) -> list[dict]:
    """Both ways on the same groups, on a GPU as well where there is one."""
    similarity = groups_of(count)
    np.testing.assert_allclose(target_kernel(similarity), by_numpy(similarity.numpy()), atol=1e-9)
    ways = {
        "numpy, a group at a time": lambda: by_numpy(similarity.numpy()),
        "ours": lambda: target_kernel(similarity),
    }
    if torch.cuda.is_available():
        there = similarity.cuda()
        ways["ours, on the GPU"] = lambda: target_kernel(there)
    return table(f"PSD projection of {count} groups of {similarity.shape[1]}", interleaved(ways, repeats))
