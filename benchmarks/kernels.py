"""How much the batched kernels and rankings gain over plain double loops: `python -m benchmarks.kernels`.

Prints one line per function: CPU seconds of the loop, of ours, and their ratio. Both must agree first. The
last line times the largest gallery of the paper (5,794 images, ASK, section D.5), too many for a loop.
"""

import math
from collections.abc import Callable
from time import process_time

import numpy as np
import torch

from ask.kernels import Link, normalized_polynomial_kernel
from ask.metrics import average_precision, ndcg_at_k, ranking

LINK = Link(gamma=0.01, c=0.3)


def seconds(function: Callable, *arguments, repeats: int = 1) -> tuple[float, object]:
    """CPU seconds of the fastest of several runs, and what the function returned."""
    fastest = math.inf
    for _ in range(repeats):
        start = process_time()
        result = function(*arguments)
        fastest = min(fastest, process_time() - start)
    return fastest, result


def kernels_by_loops(groups: list) -> list:
    """Normalized cubic kernel of each group, one pair of images at a time."""

    def kernel(x, y):
        return (LINK.gamma * sum(u * v for u, v in zip(x, y, strict=True)) + LINK.c) ** LINK.p

    return [[[kernel(x, y) / math.sqrt(kernel(x, x) * kernel(y, y)) for y in g] for x in g] for g in groups]


def precisions_by_loops(similarity: list, labels: list) -> list:
    """Average precision of each image as a query of all others, one rank at a time."""
    precisions = []
    for i, row in enumerate(similarity):
        others = sorted((j for j in range(len(row)) if j != i), key=lambda j: (-row[j], j))
        found, total = 0, 0.0
        for rank, j in enumerate(others, 1):
            if labels[j] == labels[i]:
                found += 1
                total += found / rank
        precisions.append(total / found)
    return precisions


def report(name: str, loop: float, ours: float) -> None:
    """One line of the table."""
    print(f"{name:<44}{loop:9.3f} s {ours:9.5f} s {loop / ours:9.0f} x")


def main() -> None:
    """Compare, check and print."""
    torch.set_num_threads(1)  # the loops have no more
    rng = np.random.default_rng(0)
    groups = torch.tensor(rng.normal(size=(4, 32, 128)))
    loop, expected = seconds(kernels_by_loops, groups.tolist())
    ours, kernels = seconds(normalized_polynomial_kernel, groups, LINK, repeats=20)
    np.testing.assert_allclose(kernels, expected)
    report("normalized cubic kernel, 4 groups of 32", loop, ours)

    labels = np.arange(500) % 25
    similarity, relevance = rng.normal(size=(500, 500)), labels[:, None] == labels[None, :]
    loop, expected = seconds(precisions_by_loops, similarity.tolist(), labels.tolist())
    ours, precisions = seconds(lambda: average_precision(ranking(similarity, relevance)), repeats=5)
    np.testing.assert_allclose(precisions, expected)
    report("average precision, 500 images", loop, ours)

    similarity, relevance = rng.normal(size=(5794, 5794)).astype(np.float32), rng.random((5794, 5794)) > 0.9
    ours, _ = seconds(lambda: ndcg_at_k(ranking(similarity, relevance), 10))
    print(f"{'ranking and nDCG@10, 5,794 images':<44}{'':>12}{ours:9.2f} s")


if __name__ == "__main__":
    main()
