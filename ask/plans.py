"""Sparse plans: a few pairs of each block of pictures instead of all pairs of each group (ASK, appendix D.10).

A replay uses only pairs that are scored already; a live plan may choose any, and buys them. In both a block is a
training step's pictures and the pairs of them whose scores count. In reading order: `Block`, `scored_matrix`,
`random_blocks`, `covering_blocks`, `buffered_blocks`, `sorted_blocks`, `distinct_pairs`, `live_pairs`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ask.elicitation import dense_pairs
from ask.judges import Pair


class PlanError(ValueError):
    """There are too few pictures, or too few scored pairs among them; the message counts them."""


@dataclass(frozen=True)
class Block:
    """The pictures of one training step and the pairs that count.

    Attributes:
        rows: (b,) pictures.
        pairs: (k, 2) positions in ``rows``, the first below the second.
    """

    rows: np.ndarray
    pairs: np.ndarray

    def mask(self) -> np.ndarray:  # (b, b)
        """Which entries of the block's similarity are known: its pairs in both orders, not the diagonal."""
        known = np.zeros((len(self.rows), len(self.rows)), bool)
        known[self.pairs[:, 0], self.pairs[:, 1]] = known[self.pairs[:, 1], self.pairs[:, 0]] = True
        return known


Choice = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]  # some k of (m, 2) pairs


def scored_matrix(
    pairs: Iterable[tuple[int, int]],  # rows of scored pairs, in either order
    n: int,  # pictures
) -> np.ndarray:  # (n, n) symmetric, diagonal false
    """Which pairs are scored."""
    first, second = np.array(list(pairs), int).reshape(-1, 2).T
    scored = np.zeros((n, n), bool)
    scored[first, second] = scored[second, first] = True
    np.fill_diagonal(scored, False)
    return scored


def random_blocks(
    scored: np.ndarray,  # (n, n), as of `scored_matrix`; all true off the diagonal for a live plan
    *,
    blocks: int,
    seed: int,
    size: int = 32,
    pairs: int | None = 15,  # of each block; None: all that are scored
) -> list[Block]:
    """Random pictures, and of their scored pairs as many as asked at random, or all if there are fewer.

    ASK, Table 16: *Sparse 15* and *Single pass* (3,000 blocks); *All cached* without ``pairs``; *Wider blocks* with
    64 pictures and 30 pairs.

    Raises:
        PlanError: if there are fewer pictures than a block needs.
    """
    rng = np.random.default_rng(seed)
    n = _enough(scored, size)
    return [_block(scored, rng.choice(n, size, replace=False), pairs, _any, rng) for _ in range(blocks)]


def covering_blocks(
    scored: np.ndarray,  # (n, n)
    *,
    blocks: int,
    seed: int,
    size: int = 32,
    pairs: int = 15,
) -> list[Block]:
    """The same random pictures, but pairs that together show as many of them as can be (ASK, Table 16).

    The paper does not state the rule; here a pair of two pictures not yet shown comes before one that shows one.
    """
    rng = np.random.default_rng(seed)
    n = _enough(scored, size)
    return [_block(scored, rng.choice(n, size, replace=False), pairs, _covering, rng) for _ in range(blocks)]


def buffered_blocks(
    scored: np.ndarray,  # (n, n)
    *,
    blocks: int,
    seed: int,
    size: int = 32,
    pairs: int = 15,
    buffer: int = 200,
) -> list[Block]:
    """Random pictures from a buffer that slides once around all of them in a random order (ASK, Table 16).

    Raises:
        PlanError: if there are fewer pictures than the buffer holds.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(_enough(scored, buffer))
    return _sliding(scored, order, buffer, blocks, size, pairs, rng)


def sorted_blocks(
    scored: np.ndarray,  # (n, n)
    labels: Sequence[str],  # n classes
    *,
    blocks: int,
    seed: int,
    size: int = 32,
    pairs: int = 15,
    buffer: int = 40,
    shuffled: bool = False,  # the same blocks, but in random order
) -> list[Block]:
    """The same with pictures ordered by class, so that a block holds one or two classes (*Breed-sorted*).

    The paper does not state how far a block reaches; a buffer of one breed's 40 pictures gives its counts.

    Raises:
        PlanError: if there are fewer pictures than the buffer holds.
    """
    rng = np.random.default_rng(seed)
    _enough(scored, buffer)
    order = np.argsort(np.asarray(labels), kind="stable")
    made = _sliding(scored, order, buffer, blocks, size, pairs, rng)
    return [made[turn] for turn in rng.permutation(blocks)] if shuffled else made


def distinct_pairs(
    blocks: Iterable[Block],
    groups: Iterable[
        Sequence[int]
    ] = (),  # dense groups, whose pairs count too: those that calibrate the link
) -> set[tuple[int, int]]:
    """The distinct unordered pairs of rows that blocks and groups use: how many judgments a plan is worth."""
    used = {tuple(sorted(pair)) for block in blocks for pair in block.rows[block.pairs].tolist()}
    for group in groups:
        first, second = np.triu_indices(len(group), 1)
        rows = np.sort(np.asarray(group))
        used |= set(zip(rows[first].tolist(), rows[second].tolist(), strict=True))
    return used


def live_pairs(
    blocks: Iterable[Block],
    calibration: Iterable[Sequence[int]],  # dense groups on which the link is fitted; 20 in the paper
    hashes: Mapping[int, str] | Sequence[str],  # row -> hash of its picture
) -> list[Pair]:
    """What a sparse plan has to buy: its blocks' pairs and all pairs of the calibration groups, each once."""
    used = [*calibration, *sorted(distinct_pairs(blocks))]
    return dense_pairs(used, hashes)


def _block(
    scored: np.ndarray, rows: np.ndarray, pairs: int | None, choose: Choice, rng: np.random.Generator
) -> Block:
    known = np.argwhere(np.triu(scored[np.ix_(rows, rows)], 1))
    if not len(known):
        raise PlanError(
            f"none of the pairs of {len(rows)} pictures is scored; score more, or take larger blocks"
        )
    return Block(rows, known if pairs is None or pairs >= len(known) else choose(known, pairs, rng))


def _sliding(
    scored: np.ndarray,
    order: np.ndarray,
    buffer: int,
    blocks: int,
    size: int,
    pairs: int,
    rng: np.random.Generator,
) -> list[Block]:
    starts = np.linspace(0, len(order), blocks, endpoint=False).astype(int)
    held = (np.take(order, np.arange(start, start + buffer), mode="wrap") for start in starts)
    return [_block(scored, rng.choice(rows, size, replace=False), pairs, _any, rng) for rows in held]


def _any(known: np.ndarray, pairs: int, rng: np.random.Generator) -> np.ndarray:
    return known[np.sort(rng.choice(len(known), pairs, replace=False))]


def _covering(known: np.ndarray, pairs: int, rng: np.random.Generator) -> np.ndarray:
    left, chosen, shown = known[rng.permutation(len(known))], [], np.zeros(known.max() + 1, bool)
    for _ in range(pairs):
        best = (~shown[left]).sum(axis=1).argmax()
        chosen.append(left[best])
        shown[left[best]] = True
        left = np.delete(left, best, axis=0)
    return np.array(sorted(chosen, key=tuple))


def _enough(scored: np.ndarray, wanted: int) -> int:
    if len(scored) < wanted:
        raise PlanError(
            f"{wanted} pictures at a time were asked for, but there are {len(scored)}; ask for fewer"
        )
    return len(scored)
