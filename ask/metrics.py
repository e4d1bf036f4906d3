"""Metrics: does the student agree with the judge, retrieve unseen classes, and still recognize?

    fidelity, pearson_fidelity                         agreement with raw judgments
    ranking                                            who is retrieved, query by query, and in which order
    average_precision, mean_average_precision          read off a ranking
    recall_at_k, precision_at_k, ndcg_at_k             read off a ranking
    class_text_features, zero_shot_accuracy            recognition
    judge_agreement                                    two judges, or one judge and the images swapped
    sign_flip_test, clustered_bootstrap                is a difference of queries more than chance?

Arguments are NumPy arrays or tensors of any device, results are floats and NumPy arrays, as fractions of one
(percent is the tables' business). A correlation with a constant is not nan but a `NoInformationError`
that names the constant side. A query without a relevant item has no average precision: it is left out and
counted in `Ranking.skipped`.

References: ASK, sections 3.1, C.2, D.2, D.5, D.7; Järvelin and Kekäläinen, "Cumulated gain-based evaluation"
(2002).
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import normalize

Array = np.ndarray | Tensor
ROWS = 128  # queries that are ranked at a time: their keys fit a processor's cache


class NoInformationError(ValueError):
    """A score that is the same everywhere, or a query set with nothing to find: no metric is defined."""


def _array(values: Array) -> np.ndarray:
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
    student, judged = _array(student), _array(judged)
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
    pairs = np.ones((n, n), bool) if pairs is None else _array(pairs)
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


@dataclass(frozen=True)
class Ranking:
    """What `ranking` retrieved for every query that has something to find."""

    relevance: np.ndarray  # (q, n) relevance in retrieved order, best first, zero in place of excluded items
    queries: np.ndarray  # (q,) row numbers of these queries in the similarity matrix
    skipped: int  # queries left out because their gallery holds nothing relevant


def ranking(
    similarity: Array,  # (q, n) of query and gallery image, larger is closer
    relevance: Array,  # (q, n) bool, or graded >= 0
    *,
    query_ids: Array | None = None,  # (q,) whatever identifies an image: row number, path or hash
    gallery_ids: Array | None = None,  # (n,) the same for the gallery, each once
    eligible: Array | None = None,  # (q, n) bool, the gallery of each query; everything if not given
) -> Ranking:
    """Gallery images by falling similarity, the query itself excluded.

    ASK, section C.2. The query leaves its own gallery and its own count of relevant images by *id*, never by
    rank: the first hit may be a duplicate. Ties are broken by id, the smaller first, so no order of files can
    help. Without ids the matrix must be square and row i is image i. Columns that are not `eligible` rank
    nowhere (section D.5).

    Raises:
        NoInformationError: if no query has anything relevant in its gallery.
        ValueError: if shapes or ids do not fit, a similarity is not finite, or a relevance is negative.
    """
    similarity, relevance = _tensor(similarity), _tensor(relevance)
    if similarity.ndim != 2 or relevance.shape != similarity.shape:
        raise ValueError(
            f"similarity and relevance must both be (q, n), but are {tuple(similarity.shape)} and "
            f"{tuple(relevance.shape)}; put both in the order of one list of queries and one gallery"
        )
    if not _are_finite(similarity) or not (relevance.dtype == torch.bool or (relevance >= 0).all()):
        raise ValueError("similarity must be finite and relevance >= 0, but one is not; look for nan")
    q, n = similarity.shape
    if query_ids is None and gallery_ids is None and q == n:
        query_ids = gallery_ids = np.arange(n)
    if query_ids is None or gallery_ids is None:
        raise ValueError(
            f"{q} queries of {n} images need query_ids and gallery_ids, but came without; "
            "a query is excluded by id, never by rank"
        )
    query_ids = _array(query_ids)
    names, by_id = np.unique(_array(gallery_ids), return_index=True)
    if query_ids.shape != (q,) or names.size != n:
        raise ValueError(
            f"{q} queries of {n} images need {q} query ids and {n} different gallery ids, but came with "
            f"{query_ids.size} and {names.size}; name every image once"
        )
    # The only column that may be the query itself, since `names` is sorted.
    itself = by_id[np.searchsorted(names, query_ids).clip(max=n - 1)]  # (q,)
    there = _array(gallery_ids)[itself] == query_ids
    columns = slice(None) if (by_id == np.arange(n)).all() else torch.from_numpy(by_id)
    retrieved = []
    for start in range(0, q, ROWS):
        rows = slice(start, start + ROWS)
        allowed = torch.ones_like(relevance[rows], dtype=torch.bool)
        if eligible is not None:
            allowed &= _tensor(eligible[rows]).to(allowed.device)
        allowed[np.flatnonzero(there[rows]), itself[rows][there[rows]]] = False
        shown = (
            part[:, columns].to(similarity.device) for part in (similarity[rows], relevance[rows], allowed)
        )
        retrieved.append(_retrieved(*shown).cpu().numpy())
    ranked = np.concatenate(retrieved)
    answerable = ranked.any(1)
    if not answerable.any():
        raise NoInformationError(f"none of {q} queries has a relevant image in its gallery; check the labels")
    queries = np.flatnonzero(answerable)
    return Ranking(ranked if len(queries) == q else ranked[answerable], queries, q - len(queries))


def _tensor(values: Array) -> Tensor:
    """The same numbers as a tensor, on the device where they are."""
    return values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))


def _are_finite(values: Tensor) -> bool:
    least, most = values.aminmax() if values.numel() else (torch.zeros(()),) * 2  # nan is both
    return bool(least.isfinite() and most.isfinite())


def _retrieved(
    similarity: Tensor,  # (q, n) finite, columns by id
    relevance: Tensor,  # (q, n) likewise
    allowed: Tensor,  # (q, n) bool, likewise
) -> Tensor:  # (q, n) relevance by falling similarity, zero in place of what is not allowed
    """A ranking without an order: each relevant image goes to the place that the number of closer ones tells.

    Sorted numbers are enough for that, and NumPy sorts them twenty times as fast as it finds a stable order.
    Queries with a relevant image that ties with another get the stable order all the same.
    """
    n = similarity.shape[1]
    gain = relevance.where(allowed, torch.zeros_like(relevance))
    closeness = similarity.where(allowed, -torch.inf)
    on_cpu = closeness.device.type == "cpu"
    rising = torch.from_numpy(np.sort(closeness.numpy())) if on_cpu else closeness.sort(1).values
    row, column = gain.nonzero(as_tuple=True)
    count = gain.count_nonzero(1)
    place = (
        torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    )  # among the row's relevant ones
    wanted = closeness.new_full((len(gain), int(count.max())), torch.inf)
    wanted[row, place] = closeness[row, column]
    closer = n - torch.searchsorted(rising, wanted, right=True)
    retrieved = torch.zeros_like(gain)
    retrieved[row, closer[row, place]] = gain[row, column]
    tied = (n - closer - torch.searchsorted(rising, wanted) > 1).any(1)
    if tied.any():
        order = closeness[tied].sort(dim=1, descending=True, stable=True).indices
        retrieved[tied] = gain[tied].gather(1, order)
    return retrieved


def average_precision(ranked: Ranking) -> np.ndarray:  # (q,) in [0, 1]
    """AP of every answerable query, 1/R Σ_r precision at the rank of its r-th relevant image.

    ASK, section D.2. R counts *all* relevant images of the query's gallery, and the ranking is never cut.

    Raises:
        ValueError: if the relevance is graded.
    """
    rows, columns = np.nonzero(_binary(ranked))
    total = np.bincount(rows)
    found = np.arange(rows.size) - np.repeat(total.cumsum() - total, total) + 1
    return np.bincount(rows, found / (columns + 1)) / total


def mean_average_precision(ranked: Ranking) -> float:  # in [0, 1]
    """mAP, the mean of `average_precision` over answerable queries; `Ranking.skipped` counts the others.

    Raises:
        ValueError: if the relevance is graded.
    """
    return float(average_precision(ranked).mean())


def recall_at_k(ranked: Ranking, k: int) -> np.ndarray:  # (q,) 0 or 1
    """R@k of every answerable query: is *any* of the first k images relevant?

    ASK, section D.2. This is the hit rate, not the share of relevant images that were found.

    Raises:
        ValueError: if k is not in 1..n or the relevance is graded.
    """
    return _first(_binary(ranked), k).any(1).astype(np.float64)


def precision_at_k(ranked: Ranking, k: int) -> np.ndarray:  # (q,) in [0, 1]
    """P@k of every answerable query: the relevant share of the first k images.

    ASK, section D.2. Divides by k, also where fewer than k images are eligible.

    Raises:
        ValueError: if k is not in 1..n or the relevance is graded.
    """
    return _first(_binary(ranked), k).mean(1)


def ndcg_at_k(ranked: Ranking, k: int) -> np.ndarray:  # (q,) in [0, 1]
    """nDCG@k of every answerable query, Σ_{i<=k} rel_i / log₂(i + 1) over the same sum of its ideal ranking.

    ASK, section D.5 (Järvelin and Kekäläinen 2002). Linear gain; the ideal sorts the query's own gallery.

    Raises:
        ValueError: if k is not in 1..n.
    """
    gain = _first(ranked.relevance, k)
    ideal = torch.from_numpy(ranked.relevance.astype(np.float64)).topk(k, dim=1).values.numpy()
    discount = 1 / np.log2(np.arange(k) + 2)
    return gain @ discount / (ideal @ discount)


def _first(relevance: np.ndarray, k: int) -> np.ndarray:
    if not 1 <= k <= relevance.shape[1]:
        raise ValueError(f"k must be in 1..{relevance.shape[1]}, the gallery, but is {k}; lower the cut-off")
    return relevance[:, :k]


def _binary(ranked: Ranking) -> np.ndarray:
    if ranked.relevance.dtype == bool:
        return ranked.relevance
    relevant = ranked.relevance > 0
    if (graded := ranked.relevance[relevant]).size and graded.min() != graded.max():
        raise ValueError(
            f"relevance must be 0 or 1 here, but holds {graded.min()} and {graded.max()}; "
            "use ndcg_at_k for grades"
        )
    return relevant


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
    labels, classes = _array(labels), len(text_normalized)
    if labels.shape != image_normalized.shape[:1] or not np.isin(labels, np.arange(classes)).all():
        raise ValueError(
            f"labels must be {len(image_normalized)} numbers in 0..{classes - 1}, but are {labels.size} in "
            f"{labels.min()}..{labels.max()}; use the class order of the texts"
        )
    return float((_array((image_normalized @ text_normalized.mT).argmax(-1)) == labels).mean())


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
    first, second = _array(first), _array(second)
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
            (_array(differences).astype(np.float64),),
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
    differences, clusters = _array(differences), _array(clusters)
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
