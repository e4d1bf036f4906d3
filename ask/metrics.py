"""Metrics: does the student agree with the judge, retrieve unseen classes, and still recognize?

    fidelity, pearson_fidelity                         agreement with raw judgments
    class_text_features, zero_shot_accuracy            recognition
    judge_agreement                                    two judges, or one judge and the images swapped
    sign_flip_test, clustered_bootstrap                is a difference of queries more than chance?

Arguments are NumPy arrays or tensors of any device, results are floats and NumPy arrays, as fractions of one
(percent is the tables' business). A correlation with a constant is not nan but a `NoInformationError`
that names the constant side. Retrieval has a file of its own, `ask.rankings`.

References: ASK, sections 3.1, C.2, D.2, D.5, D.7.
"""

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import normalize

Array = np.ndarray | Tensor


class NoInformationError(ValueError):
    """A score that is the same everywhere, or a query set with nothing to find: no metric is defined."""


def as_array(values: Array) -> np.ndarray:
    """The same numbers as a NumPy array on the CPU."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    return np.asarray(values)


def fidelity(
    student: Array,  # (n, n) the student's normalized kernel
    judged: Array,  # (n, n) raw judgments in either unit, anything (nan too) outside the pairs
    *,
    pairs: Array | None = None,  # (pairs, 2) image numbers or (n, n) bool; all pairs if not given
) -> float:  # in [-1, 1]
    """Agreement with the judge: Spearman correlation over unordered off-diagonal pairs.

    ASK, section 3.1, "Fid.". Each pair counts once however often and in whichever order it is listed; the
    diagonal of a mask is ignored. Ties take their mean rank. Compare with *raw* judgments, not with projected
    ones.

    Raises:
        NoInformationError: if either side is constant up to the rounding of its own type.
        ValueError: if the matrices do not fit, or a chosen pair is not scored or not symmetric.
    """
    return float(stats.spearmanr(*_pair_values(student, judged, pairs)).statistic)


def pearson_fidelity(
    student: Array,  # (n, n) the student's normalized kernel
    judged: Array,  # (n, n) raw judgments in either unit, anything (nan too) outside the pairs
    *,
    pairs: Array | None = None,  # (pairs, 2) image numbers or (n, n) bool; all pairs if not given
) -> float:  # in [-1, 1]
    """`fidelity` with Pearson's correlation, the ρ_P of ASK, Tables 13, 17, 19, 21 and 22.

    Raises:
        NoInformationError, ValueError: as `fidelity`.
    """
    return float(np.corrcoef(*_pair_values(student, judged, pairs))[0, 1])


def _pair_values(student: Array, judged: Array, pairs: Array | None) -> list[np.ndarray]:
    """Both matrices at the chosen pairs i < j, (pairs,) each, in float64."""
    student, judged = as_array(student), as_array(judged)
    if student.ndim != 2 or student.shape[0] != student.shape[1] or student.shape != judged.shape:
        raise ValueError(
            f"student and judged must both be (n, n), but are {student.shape} and {judged.shape}; "
            "put both in the order of one image list"
        )
    i, j = np.nonzero(_upper(pairs, len(student)))
    values = []
    for name, matrix in (("student", student), ("judged", judged)):
        upper, lower = matrix[i, j].astype(np.float64), matrix[j, i].astype(np.float64)
        if missing := np.count_nonzero(~np.isfinite(upper + lower)):
            raise ValueError(f"{name} must score every pair, but {missing} are nan; choose others by `pairs`")
        # Reading one triangle would hide whatever the other holds.
        if (gap := np.abs(upper - lower).max(initial=0)) > 1e-5 * np.abs(upper).max(initial=1):
            raise ValueError(f"{name} must be symmetric, but |S - S^T| = {gap:.3g}; average the orders first")
        values.append(_informative(matrix[i, j], name))
    return values


def _upper(pairs: Array | None, n: int) -> np.ndarray:
    """The chosen pairs as an (n, n) mask above the diagonal."""
    pairs = np.ones((n, n), bool) if pairs is None else as_array(pairs)
    if pairs.dtype == bool and pairs.shape == (n, n):
        return np.triu(pairs | pairs.T, 1)
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"pairs must be (pairs, 2) image numbers or an ({n}, {n}) bool mask, but is {pairs.dtype} "
            f"{pairs.shape}; leave it out for all pairs"
        )
    if selves := np.count_nonzero(pairs[:, 0] == pairs[:, 1]):
        raise ValueError(f"a pair must be of two images, but {selves} join one with itself; drop them")
    mask = np.zeros((n, n), bool)
    mask[pairs.min(1), pairs.max(1)] = True
    return mask


def _informative(scores: np.ndarray, name: str) -> np.ndarray:
    """Scores as float64, after checking that they differ by more than the rounding of their own type."""
    rounding = 8 * np.finfo(scores.dtype).eps if scores.dtype.kind == "f" else 0
    scores = scores.astype(np.float64)
    if scores.size < 2:
        raise NoInformationError(f"{name} must score two pairs or more, not {scores.size}; choose more")
    if np.ptp(scores) <= rounding * np.abs(scores).max():
        raise NoInformationError(
            f"{name} must tell pairs apart, but scores all {scores.size} of them {scores[0]:.6g}; "
            "report it as carrying no information"
        )
    return scores


def class_text_features(
    templates: list[Tensor],  # one (templates, d) per class, text features of all its prompts
) -> Tensor:  # (classes, d) unit norm
    """Zero-shot classifier, one row per class: the normalized mean of its normalized prompts.

    Radford et al. (2021), section 3.1.4. The number of prompts may differ between classes.
    """
    return normalize(torch.stack([normalize(rows, dim=-1).mean(0) for rows in templates]), dim=-1)


def zero_shot_accuracy(
    image_normalized: Tensor,  # (n, d) unit norm
    text_normalized: Tensor,  # (classes, d) unit norm, from `class_text_features`
    labels: Array,  # (n,) rows of text_normalized
) -> float:  # in [0, 1]
    """Top-1 accuracy of the nearest class text by cosine.

    ASK, section 2.5. Both towers are the adapted ones. A tie goes to the smaller class number.

    Raises:
        ValueError: if features are not normalized, or the labels do not fit.
    """
    for name, features in (("image", image_normalized), ("text", text_normalized)):
        norms = torch.linalg.vector_norm(features, dim=-1)
        if not (worst := (norms - 1).abs().max()) < 1e-2:
            raise ValueError(f"{name} features must have norm 1, but one is off by {worst:.3g}; normalize")
    labels, classes = as_array(labels), len(text_normalized)
    if labels.shape != image_normalized.shape[:1] or not np.isin(labels, np.arange(classes)).all():
        raise ValueError(
            f"labels must be {len(image_normalized)} numbers in 0..{classes - 1}, but are {labels.size} in "
            f"{labels.min()}..{labels.max()}; use the class order of the texts"
        )
    return float((as_array((image_normalized @ text_normalized.mT).argmax(-1)) == labels).mean())


def judge_agreement(
    first: Array,  # (pairs,) scores of one judge on the scale [1, V]
    second: Array,  # (pairs,) scores of another, or of the same with the images swapped
) -> dict[str, float]:
    """How two sets of scores of the same pairs agree, as flat metrics.

    ASK, Table 12: ``spearman`` and ``pearson`` correlation; ``mean_absolute`` (|Δ|) and ``rmse`` difference
    in points of the scale; ``exact`` and ``within_one``, the share of pairs whose scores, rounded half up,
    differ by 0 and by at most 1.

    Raises:
        NoInformationError: if either side is constant.
        ValueError: if the two are not scores of the same pairs.
    """
    first, second = as_array(first), as_array(second)
    if first.ndim != 1 or first.shape != second.shape or not np.isfinite([first, second]).all():
        raise ValueError(
            f"two judges must have scored the same pairs, but came with {first.shape} and {second.shape} "
            "scores or with nan among them; join them by pair and drop unanswered ones"
        )
    x, y = _informative(first, "first"), _informative(second, "second")
    steps = np.abs(np.floor(x + 0.5) - np.floor(y + 0.5))
    return {
        "spearman": float(stats.spearmanr(x, y).statistic),
        "pearson": float(np.corrcoef(x, y)[0, 1]),
        "mean_absolute": float(np.abs(x - y).mean()),
        "rmse": float(np.sqrt(np.square(x - y).mean())),
        "exact": float((steps == 0).mean()),
        "within_one": float((steps <= 1).mean()),
    }


def sign_flip_test(
    differences: Array,  # (q,) paired differences, one per query
    *,
    # ASK, section D.2.
    flips: int = 10_000,
    seed: int,
) -> float:  # p in (0, 1]
    """Two-sided paired permutation test of a zero mean difference, by flipping signs.

    ASK, section D.2. p is the share of flips whose |mean| reaches the observed one, counting the observed
    data as one flip (p is never 0), and exact where all 2^q flips are no more than ``flips``.
    """
    return float(
        stats.permutation_test(
            (as_array(differences).astype(np.float64),),
            lambda values, axis: np.abs(values.mean(axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=flips,
            batch=1000,
            rng=np.random.default_rng(seed),
        ).pvalue
    )


def clustered_bootstrap(
    differences: Array,  # (q,) paired differences, one per query
    clusters: Array,  # (q,) what is resampled, such as the query's species
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int,
) -> tuple[float, float]:
    """Percentile interval of the mean difference, resampling whole clusters of queries.

    ASK, section D.5. Paired: pass differences, so that both models always see the same queries. Every
    resample draws as many clusters as there are, with replacement, and averages over the queries in them.

    Raises:
        ValueError: if the shapes differ or there is only one cluster.
    """
    differences, clusters = as_array(differences), as_array(clusters)
    if differences.shape != clusters.shape:
        raise ValueError(
            f"each difference needs a cluster, but there are {differences.size} and {clusters.size}; "
            "take both at Ranking.queries"
        )
    names, cluster = np.unique(clusters, return_inverse=True)
    if names.size < 2:
        raise ValueError(f"a bootstrap needs two clusters, but all queries are in {names}; resample queries")
    chance = np.full(names.size, 1 / names.size)
    drawn = np.random.default_rng(seed).multinomial(names.size, chance, resamples)  # (resamples, clusters)
    means = drawn @ np.bincount(cluster, differences) / (drawn @ np.bincount(cluster))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
