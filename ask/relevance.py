"""How alike people's annotations say two pictures are: graded relevance for retrieval (ASK, D.5).

Pure functions of annotations. In reading order: `Annotated`, what a retrieval is scored against; then the formulas,
`jaccard`, `circular` and `pose`.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Annotated:
    """Pictures that are queries and gallery at once, and what is relevant to each.

    Attributes:
        rows: (q,) rows of the dataset's table.
        relevance: (q, q) in [0, 1].
        eligible: (q, q) bool, the gallery of each query.
        clusters: (q,) what a bootstrap resamples, such as the species.
    """

    rows: np.ndarray
    relevance: np.ndarray
    eligible: np.ndarray
    clusters: np.ndarray


def jaccard(
    present: np.ndarray,  # (n, values) bool
) -> np.ndarray:  # (n, n) in [0, 1], 0 between empty sets
    """Overlap of the sets of values, |A ∩ B| / |A ∪ B|."""
    values = present.astype(np.float64)
    both, sizes = values @ values.T, values.sum(1)
    either = sizes[:, None] + sizes[None, :] - both
    return np.divide(both, either, out=np.zeros_like(both), where=either > 0)


def circular(
    degrees: np.ndarray,  # (n,)
    vanishes: float = 90.0,  # degrees apart at which nothing is left
) -> np.ndarray:  # (n, n) in [0, 1]
    """Likeness of two directions, max(0, 1 - d / 90°) with d the smaller way round."""
    apart = np.abs((degrees[:, None] - degrees[None, :] + 180) % 360 - 180)
    return np.maximum(0, 1 - apart / vanishes)


def pose(
    points: np.ndarray,  # (n, k, 2) keypoints, moved and scaled by `in_box`
    visible: np.ndarray,  # (n, k) bool
    *,
    joint: int = 8,  # keypoints that both must show
    width: float = 0.1,
) -> tuple[np.ndarray, np.ndarray]:  # (n, n) in [0, 1], 0 where too few; (n, n) bool, whether enough
    """Likeness of two poses, exp(-d² / (2·0.1²)), d² the mean squared distance of the keypoints that both show."""
    seen = visible.astype(np.float64)
    placed = points * seen[..., None]
    squares = (placed**2).sum(-1)  # (n, k)
    count = seen @ seen.T
    crossed = np.einsum("ikc,jkc->ij", placed, placed)
    total = squares @ seen.T + seen @ squares.T - 2 * crossed
    enough = count >= joint
    mean = np.divide(total.clip(min=0), count, out=np.zeros_like(total), where=enough)
    return np.where(enough, np.exp(-mean / (2 * width**2)), 0.0), enough


def in_box(
    points: np.ndarray,  # (n, k, 2) pixels
    boxes: np.ndarray,  # (n, 4) x, y, width, height
) -> np.ndarray:  # (n, k, 2)
    """Keypoints relative to the centre of their box, in units of its longer side."""
    boxes = boxes.astype(np.float64)
    centre = boxes[:, :2] + boxes[:, 2:] / 2
    return (points - centre[:, None]) / boxes[:, 2:].max(1)[:, None, None]
