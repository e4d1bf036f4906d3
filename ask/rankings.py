"""Rankings: who is retrieved, query by query, and in which order; and what is read off that.

    ranking                                            gallery images by falling similarity
    average_precision, mean_average_precision          read off a ranking
    recall_at_k, precision_at_k, ndcg_at_k             read off a ranking

Similarities may be NumPy arrays or tensors of any device, where they are sorted; results are NumPy arrays and floats,
as fractions of one. A query without a relevant item has no average precision: it is left out and counted in
`Ranking.skipped`.

References: ASK, sections C.2, D.2, D.5; Järvelin and Kekäläinen, "Cumulated gain-based evaluation" (2002).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ask.metrics import Array, NoInformationError, as_array

ROWS = 128  # queries that are ranked at a time: their keys fit a processor's cache


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
    query_ids = as_array(query_ids)
    names, by_id = np.unique(as_array(gallery_ids), return_index=True)
    if query_ids.shape != (q,) or names.size != n:
        raise ValueError(
            f"{q} queries of {n} images need {q} query ids and {n} different gallery ids, but came with "
            f"{query_ids.size} and {names.size}; name every image once"
        )
    # The only column that may be the query itself, since `names` is sorted.
    itself = by_id[np.searchsorted(names, query_ids).clip(max=n - 1)]  # (q,)
    there = as_array(gallery_ids)[itself] == query_ids
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
