"""Attention with its query, key, value and output projections as four plain Linear layers.

open_clip keeps the first three fused in one (3·width, width) matrix, in two layouts: torch's
`nn.MultiheadAttention`, and a class of its own with an `out_proj` beside it. Low-rank updates of the fused
matrix share one factor among q, k and v, and peft's wrapper of `nn.MultiheadAttention` applies the output
update twice (huggingface/peft#3774). So `split_tower` takes the projections apart. What is computed stays the
same, and `SplitAttention.fused` gives the original tensors back.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
TOWERS = ("visual", "text")


def project(
    attention: nn.Module,  # fused, as open_clip makes it, or split
    x: Tensor,  # (..., width)
) -> tuple[Tensor, Tensor, Tensor]:  # (..., width) each
    """Queries, keys and values of self-attention, in either layout."""
    if isinstance(attention, SplitAttention):
        return attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)
    fused = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    return fused.chunk(3, dim=-1)


class UnknownLayoutError(ValueError):
    """A model whose attention is in neither of the two layouts that can be taken apart."""


class SplitAttention(nn.Module):
    """Multi-head self-attention, softmax(q kᵀ / √d_head + mask) v, with four Linear layers.

    Called as open_clip's own attention is: ``attention(x, attn_mask=...) -> x``.
    """

    def __init__(self, fused: nn.Module):
        super().__init__()
        self.num_heads = fused.num_heads
        self.batch_first = getattr(fused, "batch_first", True)
        weights = fused.in_proj_weight.chunk(3)
        biases = (None, None, None) if fused.in_proj_bias is None else fused.in_proj_bias.chunk(3)
        self.q_proj, self.k_proj, self.v_proj = map(_linear, weights, biases)
        self.out_proj = _linear(fused.out_proj.weight, fused.out_proj.bias)

    def forward(
        self,
        x: Tensor,  # (n, l, width), or (l, n, width) unless batch_first
        attn_mask: Tensor | None = None,
    ) -> Tensor:  # as x
        """Self-attention."""
        return self.attend(x, x, x, attn_mask)

    def attend(
        self,
        query: Tensor,  # (n, l, width), or (l, n, width) unless batch_first
        key: Tensor,  # (n, s, width), likewise
        value: Tensor,  # (n, s, width), likewise
        mask: Tensor | None,  # (l, s) or (n·heads, l, s): added to the logits, or blocks where true
    ) -> Tensor:  # as query
        """The attention itself, however it is called."""
        if not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = map(self._heads, (self.q_proj(query), self.k_proj(key), self.v_proj(value)))
        if mask is not None:
            # The kernel below keeps where a boolean mask is true, the layouts above block there.
            mask = ~mask if mask.dtype == torch.bool else mask.to(q.dtype)
            mask = mask.unflatten(0, (-1, self.num_heads)) if mask.ndim == 3 else mask
        x = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (n, heads, l, d_head)
        x = self.out_proj(x.transpose(1, 2).flatten(2))  # (n, l, width)
        return x if self.batch_first else x.transpose(0, 1)

    def fused(self, weight: Callable[[nn.Module], Tensor]) -> dict[str, Tensor]:
        """The tensors of the original layout by name, with each projection's matrix as `weight` gives it."""
        parts = [getattr(self, name) for name in PROJECTIONS]
        tensors = {
            "in_proj_weight": torch.cat([weight(part) for part in parts[:3]]),
            "out_proj.weight": weight(parts[3]),
        }
        if parts[0].bias is not None:
            tensors["in_proj_bias"] = torch.cat([part.bias for part in parts[:3]])
        if parts[3].bias is not None:
            tensors["out_proj.bias"] = parts[3].bias
        return tensors

    def _heads(self, x: Tensor) -> Tensor:  # (n, l, width) -> (n, heads, l, d_head)
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class SplitMultiheadAttention(SplitAttention):
    """The same, called as `nn.MultiheadAttention` is: ``attention(q, k, v, attn_mask=...) -> (x, None)``."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Attention; its weights are never formed, so None stands in their place."""
        assert not need_weights
        return self.attend(query, key, value, attn_mask), None


def split_tower(model: nn.Module, tower: str) -> None:
    """Take apart every attention of the transformer of one tower of `model`, in place; outputs stay the same.

    Raises:
        UnknownLayoutError: if the tower is no open_clip transformer, or its attention is in another layout.
    """
    blocks = tower_blocks(model, tower)
    for number, block in enumerate(blocks):
        seen = getattr(block, "attn", block)
        if not _is_fused(seen):
            raise UnknownLayoutError(
                "attention must be a fused in_proj_weight (3·width, width), an out_proj Linear and nothing "
                f"else, but block {number} of the {tower} tower has {type(seen).__name__} with "
                f"{_contents(seen)}; use a plain CLIP"
            )
    for block in blocks:
        torch_layout = isinstance(block.attn, nn.MultiheadAttention)
        block.attn = (SplitMultiheadAttention if torch_layout else SplitAttention)(block.attn)


def tower_blocks(model: nn.Module, tower: str) -> nn.ModuleList:
    """The residual blocks of the image ("visual") or text ("text") tower.

    Raises:
        UnknownLayoutError: if the tower is not one of open_clip's transformers; what it is instead is listed.
    """
    owner = model.visual if tower == "visual" else getattr(model, "text", model)
    blocks = getattr(getattr(owner, "transformer", None), "resblocks", None)
    if blocks is None:
        seen = f"{type(owner).__name__} of {', '.join(name for name, _ in owner.named_children())}"
        raise UnknownLayoutError(
            f"the {tower} tower must be an open_clip transformer, but is a {seen}; use a plain ViT"
        )
    return blocks


def _is_fused(attention: nn.Module) -> bool:
    """Whether an attention is in one of the two layouts, without dropout, biases of keys or norms inside."""
    weight, out = getattr(attention, "in_proj_weight", None), getattr(attention, "out_proj", None)
    fused = isinstance(weight, Tensor) and isinstance(out, nn.Linear) and len(weight) == 3 * out.in_features
    known = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    alone = {name for name, _ in attention.named_parameters()} <= known
    dropout = getattr(attention, "dropout", 0.0) or any(
        getattr(part, "p", 0.0) for part in attention.modules()
    )
    return fused and alone and not dropout and not getattr(attention, "add_zero_attn", False)


def _contents(module: nn.Module) -> str:
    return ", ".join(f"{name} {tuple(value.shape)}" for name, value in module.named_parameters()) or "nothing"


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.detach().clone(), requires_grad=weight.requires_grad)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
    return layer
