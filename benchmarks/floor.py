"""The arithmetic that a training step cannot do without, counted from shapes (ASK, section C.3, is 2.9 TFLOP).

Counted are multiplications and additions of matrix products: every picture and every distinct beginning of a prompt
forward through frozen weights and adapters, and back to the adapters; the gradients of frozen weights are not. The
last block is counted at class and end tokens only.
"""

from dataclasses import dataclass

import torch
from torch import nn

from ask.packing import Packed


@dataclass(frozen=True)
class Work:
    """Floating-point operations."""

    forward: float
    step: float  # forward and backward


def image_work(model: nn.Module, n: int, rank: int = 0) -> Work:
    """Of n pictures."""
    tower = model.visual
    width, blocks = tower.conv1.out_channels, len(tower.transformer.resblocks)
    patch, length = tower.conv1.kernel_size[0] ** 2 * 3, tower.positional_embedding.shape[0]
    embedded = 2 * n * (length - 1) * patch * width
    seen = _blocks(n * length, n, n * length**2, n * length, width, blocks, rank)
    projected = 2 * n * width * tower.proj.shape[1]
    return Work(embedded + seen.forward + projected, embedded + seen.step + 2 * projected)


def text_work(model: nn.Module, packed: Packed, rank: int = 0) -> Work:
    """Of packed prompts."""
    tower = getattr(model, "text", model)
    width, blocks = tower.positional_embedding.shape[1], len(tower.transformer.resblocks)
    nodes, ends = len(packed.tokens), len(packed.ends)
    lengths = packed.positions[packed.ends] + 1
    # A causal tower compares each node with what stands before it in its prompt.
    compared, last = int((packed.positions + 1).sum()), int(lengths.sum())
    seen = _blocks(nodes, ends, compared, last, width, blocks, rank)
    projected = 2 * ends * tower.text_projection.numel()
    return Work(seen.forward + projected, seen.step + 2 * projected)


def _blocks(
    tokens: int,
    pooled: int,  # tokens that the last block computes
    compared: int,  # pairs of query and key in one block
    last: int,  # and in the last
    width: int,
    blocks: int,
    rank: int,
) -> Work:
    projection, adapter = 2 * width**2, 4 * width * rank  # per token
    full = tokens * (12 * projection + 4 * adapter)
    final = tokens * 2 * (projection + adapter) + pooled * (10 * projection + 2 * adapter)
    attended = 4 * width * ((blocks - 1) * compared + last)
    forward = (blocks - 1) * full + final + attended
    # Back: activations once more, of adapters the weights too, of attention both factors of both products. Nothing is
    # asked of what lies before the first block's adapters.
    adapters = tokens * 4 * adapter * (blocks - 1) + (tokens * 2 + pooled * 2) * adapter
    unasked = tokens * 3 * (projection + adapter / 2)
    return Work(forward, 2 * forward + attended + adapters - unasked)


def imagenet_prompts() -> list[str]:
    """The thousand prompts whose lengths are a text bank's, without ImageNet."""
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES

    return [f"a photo of a {name}." for name in IMAGENET_CLASSNAMES]


def spread(count: int, seed: int = 0) -> torch.Tensor:  # (count,) of the thousand prompts
    """Some of the prompts, drawn so that their lengths are as those of all."""
    return torch.randperm(1000, generator=torch.Generator().manual_seed(seed))[:count].sort().values
