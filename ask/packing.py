"""Prompts packed into a prefix tree, so that a causal text tower computes no token twice and no padding.

In a causal tower the state of a token depends on the tokens before it alone. Prompts that begin alike ("a photo of
a") therefore have the same states up to where they part, and what stands behind an end token is seen by nobody.
`pack` gives every distinct beginning one node of a tree; the tower's linear layers run on nodes. Only attention still
looks at whole prompts: at the path of each from the root, in buckets of about equal length. In reading order: `pack`,
`Packed`, `attend`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ask.attention import project


@dataclass(frozen=True)
class Packed:
    """m prompts as a tree of t nodes."""

    tokens: Tensor  # (t,) token id of each node
    positions: Tensor  # (t,) its place in the prompts that pass through it
    paths: tuple[Tensor, ...]  # per bucket (m_i, l_i): the nodes of each prompt, then any node
    places: Tensor  # (t,) where in the concatenated buckets a node is found; it may be in many places
    ends: Tensor  # (m,) the node of each prompt's end token

    def to(self, device: torch.device | str) -> "Packed":
        """The same on another device."""
        paths = tuple(path.to(device) for path in self.paths)
        moved = (part.to(device) for part in (self.places, self.ends))
        return Packed(self.tokens.to(device), self.positions.to(device), paths, *moved)


def pack(
    tokens: Tensor,  # (m, L) token ids, anything after the end token, which has the highest id
) -> Packed:
    """The prefix tree of some prompts."""
    ids = tokens.cpu().numpy()
    ends = ids.argmax(1)
    path = np.zeros((len(ids), int(ends.max()) + 1), np.int64)  # (m, l)
    levels, count = [], 0
    parent, kinds = np.zeros(len(ids), np.int64), int(ids.max()) + 1
    for position in range(path.shape[1]):
        alive = np.flatnonzero(ends >= position)
        nodes, inverse = np.unique(parent[alive] * kinds + ids[alive, position], return_inverse=True)
        path[alive, position] = parent[alive] = count + inverse
        levels.append(nodes % kinds)
        count += len(nodes)
    positions = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
    paths, places = _buckets(path, ends + 1, count)
    last = path[np.arange(len(ids)), ends]
    kept = (torch.from_numpy(part) for part in (np.concatenate(levels), positions))
    return Packed(*kept, tuple(map(torch.from_numpy, paths)), *map(torch.from_numpy, (places, last)))


def attend(
    attention: nn.Module,  # fused or split, see ask.attention
    x: Tensor,  # (t, w) normalised states of all nodes
    packed: Packed,
    nodes: Tensor | None = None,  # (k,) the nodes to compute, all if not given
) -> Tensor:  # (t, w), or (k, w)
    """Causal self-attention of every prompt, read off at its nodes."""
    q, k, v = project(attention, x)
    seen = []
    for path in packed.paths:  # (m_i, l_i)
        parts = (_heads(functional.embedding(path, part), attention.num_heads) for part in (q, k, v))
        found = functional.scaled_dot_product_attention(*parts, is_causal=True)  # (m_i, heads, l_i, d_head)
        seen.append(found.transpose(1, 2).flatten(2).flatten(0, 1))  # (m_i·l_i, w)
    places = packed.places if nodes is None else packed.places[nodes]
    return attention.out_proj(functional.embedding(places, torch.cat(seen)))


def _heads(x: Tensor, heads: int) -> Tensor:  # (m, l, w) -> (m, heads, l, d_head)
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _buckets(
    path: np.ndarray,  # (m, l) nodes
    lengths: np.ndarray,  # (m,)
    count: int,  # t
) -> tuple[list[np.ndarray], np.ndarray]:  # as in `Packed`: paths, places
    """Prompts whose lengths round up to the same power of two together, so that at most half of a bucket is padding."""
    rounded = np.ceil(np.log2(lengths)).astype(int)
    paths, places, before = [], np.zeros(count, np.int64), 0
    for size in np.unique(rounded):
        mine = np.flatnonzero(rounded == size)
        bucket = path[mine, : lengths[mine].max()]  # (m_i, l_i)
        used = np.arange(bucket.shape[1]) < lengths[mine, None]
        places[bucket[used]] = before + np.flatnonzero(used)
        before += bucket.size
        paths.append(bucket)
    return paths, places
