"""LoRA on CLIP: h = W x + (alpha / rank) · B A x on separate q, k, v and output projections of either tower.

In reading order: `adapt` puts the factors in; `factors` and `trainable_parameters` list them;
`check_gradients` proves that each of them learns; `disabled` switches them off; `base_weights` and `merge`
give a plain open_clip state dict back, without and with the update. The layers are peft's. No weight of the
base is ever written to, so nothing has to be undone. Adapters are saved and loaded in `ask/adapter.py`.

References:
    Hu et al. 2022, "LoRA: low-rank adaptation of large language models". ASK, section C.2.
"""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

from ask.attention import PROJECTIONS, TOWERS, SplitAttention, split_tower
from ask.towers import image_features, text_features

ADAPTER = "default"  # peft's own name for the only adapter


class DeadFactorError(RuntimeError):
    """A factor that no gradient reaches: it would be saved, counted and never learn."""


def adapt(
    model: nn.Module,
    rank: int,
    alpha: float,
    *,
    towers: Sequence[str] = TOWERS,
    seed: int,
) -> nn.Module:
    """Freeze `model` and put low-rank factors on its attention, in place.

    A is drawn from `seed` (uniform, as Linear layers are), B is zero, so the outputs do not change. Factors
    are float32 even on a base in half precision. A tower of width w and l blocks gets 8·l·w·r parameters.

    Returns:
        The model itself.

    Raises:
        UnknownLayoutError: if the attention of a tower cannot be taken apart.
        ValueError: if the model is adapted already, or a tower or the rank makes no sense.
    """
    if factors(model):
        raise ValueError(
            "the model must be plain, but has an adapter already; merge it, or take a fresh copy"
        )
    if not towers or set(towers) - set(TOWERS):
        raise ValueError(f"towers must be some of {', '.join(TOWERS)}, but are {list(towers)}")
    if rank < 1:
        raise ValueError(f"rank must be at least 1, but is {rank}")
    for tower in towers:
        split_tower(model, tower)
    model.requires_grad_(False)
    layers = [f"{name}.{projection}" for name, _ in _attentions(model) for projection in PROJECTIONS]
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="|".join(map(re.escape, layers)))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        inject_adapter_in_model(config, model, ADAPTER)
    for factor in factors(model).values():
        factor.data = factor.data.to(torch.promote_types(factor.dtype, torch.float32))
    return model


def factors(model: nn.Module) -> dict[str, nn.Parameter]:
    """The factors by name, ``visual.transformer.resblocks.0.attn.q_proj.lora_A`` (r, in) and so on."""
    return {
        f"{name}.{side}": getattr(layer, side)[ADAPTER].weight
        for name, layer in model.named_modules()
        if isinstance(layer, LoraLayer)
        for side in ("lora_A", "lora_B")
    }


def trainable_parameters(model: nn.Module) -> list[nn.Parameter]:
    """What an optimizer may change: after `adapt`, the factors and nothing else."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check_gradients(model: nn.Module, *, seed: int = 0) -> None:
    """Send noise through a copy of `model` with non-zero B; every trainable tensor must receive a gradient.

    Meant for the start of a training: a factor that the forward pass does not use is silent otherwise.

    Raises:
        DeadFactorError: naming the first tensor that received no gradient.
    """
    noise = torch.Generator().manual_seed(seed)
    probe = copy.deepcopy(model).float()
    device = probe.logit_scale.device
    for name, factor in factors(probe).items():
        if name.endswith("lora_B"):
            factor.data += 0.02 * torch.randn(factor.shape, generator=noise).to(device)
    pixels = torch.randn(2, 3, *probe.visual.image_size, generator=noise)
    tokens = torch.randint(1, probe.vocab_size - 1, (2, probe.context_length), generator=noise)
    tokens[:, -1] = probe.vocab_size - 1  # the end token
    for features in (image_features(probe, pixels.to(device)), text_features(probe, tokens.to(device))):
        if features.requires_grad:
            features.backward(torch.randn(features.shape, generator=noise).to(device))
    for name, parameter in probe.named_parameters():
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any()):
            raise DeadFactorError(
                f"every trainable tensor must receive a gradient, but {name} receives none; use or freeze it"
            )


@contextmanager
def disabled(model: nn.Module) -> Iterator[nn.Module]:
    """Within the block `model` computes exactly what its base does; afterwards everything is as before."""
    layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    were_off = [layer.disable_adapters for layer in layers]
    learned = [(factor, factor.requires_grad) for factor in factors(model).values()]
    try:
        for layer in layers:
            layer.enable_adapters(False)
        yield model
    finally:
        for layer, was_off in zip(layers, were_off, strict=True):
            layer.enable_adapters(not was_off)
        for factor, required in learned:
            factor.requires_grad_(required)


def base_weights(model: nn.Module) -> dict[str, Tensor]:
    """The base as a plain open_clip state dict, bit for bit as it was before `adapt`."""
    return _plain(model, lambda layer: layer.weight)


def merge(model: nn.Module) -> dict[str, Tensor]:
    """A plain open_clip state dict with W + (alpha / rank) · B A in place of W; `model` is left alone."""
    return _plain(model, _updated)


def _updated(layer: nn.Module) -> Tensor:
    if not isinstance(layer, LoraLayer):
        return layer.weight
    update = layer.get_delta_weight(ADAPTER)
    return (layer.weight.to(update.dtype) + update).to(layer.weight.dtype)


def _plain(model: nn.Module, weight: Callable[[nn.Module], Tensor]) -> dict[str, Tensor]:
    attentions = dict(_attentions(model))
    inside = tuple(f"{name}." for name in attentions)
    state = {name: value for name, value in model.state_dict().items() if not name.startswith(inside)}
    for name, attention in attentions.items():
        state |= {f"{name}.{part}": value.detach() for part, value in attention.fused(weight).items()}
    return state


def _attentions(model: nn.Module) -> list[tuple[str, SplitAttention]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, SplitAttention)]
