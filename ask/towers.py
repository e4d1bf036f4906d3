"""Features of CLIP's two towers, computed without what nobody reads.

A picture's features are read off its class token and a text's off its end token, so the last block is computed at
these tokens only. What prompts have in common is computed once, and their padding not at all (`ask.packing`). This
is exact up to rounding, with gradients; a tower of any other build is computed as open_clip does. In reading
order: `image_features`, `text_features`.

Features are un-normalised: the polynomial kernel needs their length.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from open_clip.transformer import ResidualAttentionBlock, VisionTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ask.packing import Packed, attend, pack


def image_features(
    model: nn.Module,
    pixels: Tensor,  # (n, 3, h, w) preprocessed
) -> Tensor:  # (n, d)
    """Image embeddings, not normalised."""
    tower = model.visual
    if not _reads_class_token(tower):
        return model.encode_image(pixels)
    with _full_precision(pixels):
        x = tower._embeds(pixels)  # (n, l, w), the class token first
    *blocks, last = tower.transformer.resblocks
    for block in blocks:
        x = _kept(block, x, tower.transformer)
    x = _kept(lambda x: _at_class_token(last, x), x, tower.transformer)  # (n, w)
    with _full_precision(x):
        x = tower.ln_post(x)
        return x if tower.proj is None else x @ tower.proj


def text_features(
    model: nn.Module,
    tokens: Tensor,  # (m, L) token ids, anything after the end token
    packed: Packed | None = None,  # the same prompts; packed here if not given
) -> Tensor:  # (m, d)
    """Text embeddings, not normalised.

    Raises:
        ValueError: if a text ends beyond the model's context.
    """
    tower = getattr(model, "text", model)
    if not _reads_end_token(tower):
        return model.encode_text(tokens)
    packed = (pack(tokens) if packed is None else packed).to(tokens.device)
    length, context = max(path.shape[1] for path in packed.paths), len(tower.positional_embedding)
    if length > context:
        raise ValueError(
            f"texts must end within {context} tokens, but one has {length}; make them with `tokenize`"
        )
    dtype = tower.transformer.get_cast_dtype()
    x = tower.token_embedding(packed.tokens).to(dtype)  # (t, w)
    x = x + tower.positional_embedding[packed.positions].to(dtype)
    *blocks, last = tower.transformer.resblocks
    for block in blocks:
        x = _kept(lambda x, block=block: _at_nodes(block, x, packed), x, tower.transformer)
    x = _kept(lambda x: _at_nodes(last, x, packed, packed.ends), x, tower.transformer)  # (m, w)
    projection = tower.text_projection
    with _full_precision(x):
        x = tower.ln_final(x)
        return (
            projection(x)
            if isinstance(projection, nn.Module)
            else x
            if projection is None
            else x @ projection
        )


def _at_class_token(block: nn.Module, x: Tensor) -> Tensor:  # (n, l, w) -> (n, w)
    y = block.ln_1(x)
    x = x[:, :1] + block.ls_1(block.attention(y[:, :1], y, y))
    return (x + block.ls_2(block.mlp(block.ln_2(x))))[:, 0]


def _at_nodes(
    block: nn.Module,
    x: Tensor,  # (t, w)
    packed: Packed,
    nodes: Tensor | None = None,  # (k,) all if not given
) -> Tensor:  # (t, w), or (k, w)
    y = attend(block.attn, block.ln_1(x), packed, nodes)
    x = (x if nodes is None else nn.functional.embedding(nodes, x)) + block.ls_1(y)
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def _kept(block: Callable[[Tensor], Tensor], x: Tensor, transformer: nn.Module) -> Tensor:
    """A block's output, its activations kept for the backward pass or, under gradient checkpointing, not."""
    if transformer.grad_checkpointing and torch.is_grad_enabled():
        return checkpoint(block, x, use_reentrant=False)
    return block(x)


def _full_precision(x: Tensor) -> AbstractContextManager:
    """Under autocast, the first and the last layer and what runs between the blocks stay as the weights are."""
    return torch.autocast(x.device.type, enabled=False)


def _reads_class_token(tower: nn.Module) -> bool:
    return (
        type(tower) is VisionTransformer
        and tower.pool_type == "tok"
        and tower.attn_pool is None
        and not tower.output_tokens
        and _is_plain(tower)
    )


def _reads_end_token(tower: nn.Module) -> bool:
    """Whether a text tower is causal, pools at the end token, and is built of the usual blocks."""
    pooling = getattr(tower, "text_pool_type", getattr(tower, "pool_type", None))
    causal = getattr(tower, "attn_mask", None) is not None
    return causal and pooling == "argmax" and getattr(tower, "cls_emb", None) is None and _is_plain(tower)


def _is_plain(tower: nn.Module) -> bool:
    blocks = tower.transformer.resblocks
    return tower.transformer.batch_first and all(type(block) is ResidualAttentionBlock for block in blocks)
