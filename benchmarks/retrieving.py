"""Class retrieval against a loop over queries in NumPy, one in plain Python, and torchmetrics."""

from importlib.util import find_spec

import numpy as np
import torch

from ask.clip import normalized
from ask.evaluation import retrieval
from benchmarks.measure import interleaved, table

CLASSES = 100


def features_of(images: int, d: int = 512) -> tuple[torch.Tensor, np.ndarray]:  # (n, d), (n,)
    """Noisy classes: neither trivial nor hopeless to retrieve."""
    noise = torch.Generator().manual_seed(0)
    labels = np.arange(images) % CLASSES
    centres = torch.randn(CLASSES, d, generator=noise)
    return centres[labels] + 2 * torch.randn(images, d, generator=noise), labels


def by_numpy(features: np.ndarray, labels: np.ndarray) -> float:
    """Mean average precision, one query at a time."""
    precisions = []
    for i in range(len(features)):
        order = np.argsort(-(features @ features[i]), kind="stable")
        order = order[order != i]
        relevant = labels[order] == labels[i]
        precisions.append((np.cumsum(relevant)[relevant] / (np.flatnonzero(relevant) + 1)).mean())
    return float(np.mean(precisions))


def by_python(features: torch.Tensor, labels: list[int], queries: range) -> list[float]:
    """Average precisions of some queries, whose similarities are the only thing that is not plain Python."""
    precisions = []
    for i in queries:
        row = (features @ features[i]).tolist()
        order = sorted((j for j in range(len(row)) if j != i), key=lambda j: (-row[j], j))
        found, total = 0, 0.0
        for rank, j in enumerate(order, 1):
            if labels[j] == labels[i]:
                found += 1
                total += found / rank
        precisions.append(total / found)
    return precisions


def by_torchmetrics(features: torch.Tensor, labels: np.ndarray) -> float:
    """Torchmetrics' own, which takes one flat list of pairs."""
    from torchmetrics.retrieval import RetrievalMAP

    n = len(features)
    query = torch.arange(n).repeat_interleave(n)
    similarity = (features @ features.mT).flatten()
    relevance = torch.from_numpy(labels[:, None] == labels[None]).flatten()
    others = query != torch.arange(n).repeat(n)
    return RetrievalMAP()(similarity[others], relevance[others], indexes=query[others]).item()


def mean_average_precision(images: int = 5000, queries: int = 50, repeats: int = 3) -> list[dict]:
    """All ways on the same pictures; plain Python takes a few queries, and its time is for as many as the others'."""
    features, labels = features_of(images)
    unit = normalized(features)
    some = range(0, images, images // queries)
    expected = retrieval(features, labels)["map"]
    np.testing.assert_allclose(by_numpy(unit.numpy(), labels), expected, atol=1e-5)

    ways = {
        "numpy, a query at a time": lambda: by_numpy(unit.numpy(), labels),
        "ours": lambda: retrieval(features, labels),
    }
    if find_spec("torchmetrics"):
        np.testing.assert_allclose(by_torchmetrics(unit, labels), expected, atol=1e-5)
        ways["torchmetrics"] = lambda: by_torchmetrics(unit, labels)
    found = table(f"mAP of {images:,} images", interleaved(ways, repeats))
    plain = interleaved({"python": lambda: by_python(unit, labels.tolist(), some)}, 1)["python"]
    ours = next(row["seconds"] for row in found if row["way"] == "ours")
    seconds = plain.seconds * images / len(some)
    way = f"python, {len(some)} queries scaled"
    return [*found, found[0] | {"way": way, "seconds": seconds, "times": seconds / ours, "MB": None}]
