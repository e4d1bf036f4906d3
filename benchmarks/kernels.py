"""The normalized cubic kernel of all groups at once against double loops over images."""

import math

import numpy as np
import torch

from ask.kernels import Link, normalized_polynomial_kernel
from benchmarks.measure import interleaved, table

LINK = Link(gamma=0.01, c=0.3)


def by_loops(groups: list) -> list:
    """Normalized cubic kernel of each group, one pair of images at a time."""

    def kernel(x: list, y: list) -> float:
        return (LINK.gamma * sum(u * v for u, v in zip(x, y, strict=True)) + LINK.c) ** LINK.p

    return [[[kernel(x, y) / math.sqrt(kernel(x, x) * kernel(y, y)) for y in g] for x in g] for g in groups]


def kernels(repeats: int = 3) -> list[dict]:
    """Both ways on the same features."""
    groups = torch.tensor(np.random.default_rng(0).normal(size=(4, 32, 128)))
    np.testing.assert_allclose(normalized_polynomial_kernel(groups, LINK), by_loops(groups.tolist()))
    ways = {
        "python, a pair at a time": lambda: by_loops(groups.tolist()),
        "ours": lambda: normalized_polynomial_kernel(groups, LINK),
    }
    return table("normalized cubic kernel, 4 groups of 32", interleaved(ways, repeats))
