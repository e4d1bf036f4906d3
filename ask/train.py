"""Training: one group a step, the kernel loss plus an anchor, from frozen CLIP to a steered student.

Read from top to bottom: `Recipe` says how, `rate` the learning rate, `train` the loop of ASK, Algorithm 1. Everything
random is drawn from (seed, step), so a run that was interrupted continues to the same bits (`ask.checkpoints`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from math import cos, isfinite, pi
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ask import checkpoints, losses
from ask.anchor import Anchor, frozen_anchor
from ask.clip import logits
from ask.compute import Compute
from ask.kernels import Link, normalized_polynomial_kernel
from ask.lora import factors, trainable_parameters
from ask.packing import Packed, pack
from ask.towers import image_features, text_features

OBJECTIVES = ("kernel-mse", "supcon")
ANCHORS = ("kl", "feature-l2", "none")
SCHEDULES = ("cosine", "constant")
SUPCON_TEMPERATURE = 0.07  # ASK, section C.3


@dataclass(frozen=True)
class Recipe:
    """How an arm is trained: the values of section ``training`` after the arm's own and ``-p`` are applied.

    Raises:
        TypeError: if a value has another type than stated here.
        ValueError: if a name is unknown or a number makes no sense; the known names are listed.
    """

    rank: int
    alpha: float
    steps: int
    learning_rate: float
    weight_decay: float
    warmup: int  # steps after the first
    schedule: str
    objective: str
    anchor: str
    anchor_weight: float
    anchor_sample: int  # prompts drawn per step; the whole bank if it is not larger
    seed: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wanted = (int, float) if field.type is float else field.type
            if not isinstance(value, wanted) or isinstance(value, bool):
                kind, found = field.type.__name__, type(value).__name__
                raise TypeError(f"{field.name} must be {kind}, but is {value!r} ({found}); correct the param")
        for name, known in (("objective", OBJECTIVES), ("anchor", ANCHORS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, but is {getattr(self, name)!r}")
        if min(self.steps, self.anchor_sample) < 1 or self.learning_rate <= 0:
            raise ValueError(
                f"steps, anchor_sample and learning_rate must be positive, but are {self.steps}, "
                f"{self.anchor_sample} and {self.learning_rate}"
            )


def rate(step: int, recipe: Recipe) -> float:
    """Learning rate of a step as a fraction of the full one.

    ASK, section C.3: the first update runs at the full rate, then it warms up from zero. What follows is not stated
    in the paper: ``schedule``.
    """
    if step == 0:
        return 1.0
    warm = min(1.0, step / max(recipe.warmup, 1))
    return warm if recipe.schedule == "constant" else warm * 0.5 * (1 + cos(pi * step / recipe.steps))


def train(
    student: nn.Module,  # adapted, see ask.lora; trained in place
    reference: nn.Module,  # its frozen copy
    *,
    pixels: Callable[[np.ndarray], Tensor],  # rows (b,) -> (b, 3, h, w) preprocessed
    groups: np.ndarray,  # (g, b) rows
    targets: Tensor,  # (g, b, b) target kernels, or raw similarities for the raw arms
    link: Link,
    anchor_tokens: Tensor,  # (m, L)
    recipe: Recipe,
    compute: Compute = Compute(),  # noqa: B008, it is frozen
    labels: np.ndarray | None = None,  # (g, b) class of each image, for SupCon
    checkpoint: Path
    | None = None,  # where to resume from, and to write to every `keep_every` steps and in the end
    keep_every: int = 100,
    progress: Callable[[Iterable], Iterable] = iter,
) -> list[dict[str, float]]:  # one record a step: step, align, anchor, rate
    """Trains the student to match the target kernels; only parameters that require gradients move.

    ASK, Algorithm 1: L = L_align + anchor_weight * L_anchor (eq. 8), AdamW, one group a step, groups reshuffled after
    each pass. Resumes from ``checkpoint`` if that file belongs to the same training, to the same bits.

    Raises:
        ValueError: if SupCon is asked for without labels, groups and targets do not belong together, or the student was
            trained before.
        FloatingPointError: if the loss is not finite; the step is named.
    """
    if targets.shape != (*groups.shape, groups.shape[1]):
        raise ValueError(
            f"{groups.shape} groups need targets (g, b, b), but came with {tuple(targets.shape)}"
        )
    if recipe.objective == "supcon" and labels is None:
        raise ValueError("SupCon needs class labels, but the groups have none; train on judgments instead")
    given = {
        "pixels": pixels,
        "groups": groups,
        "targets": targets,
        "link": link,
        "anchor_tokens": anchor_tokens,
    }
    given |= {"recipe": recipe, "compute": compute, "labels": labels}
    told = checkpoints.identity(student, reference, **given) if checkpoint else ""
    parameters = trainable_parameters(compute.prepared(student))
    device = parameters[0].device
    optimizer = torch.optim.AdamW(
        parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    start, history = checkpoints.resume(checkpoint, told, parameters, optimizer)
    if not start and any(
        factor.any() for name, factor in factors(student).items() if name.endswith("lora_B")
    ):
        raise ValueError(
            "the student must be untrained, but its adapter has moved already; adapt a fresh copy"
        )
    targets = targets.to(device, parameters[0].dtype)
    see, read = (compute.tower(features, device) for features in (image_features, text_features))

    with compute.matmul():
        with compute.autocast(device):
            held = frozen_anchor(reference, pixels, groups, anchor_tokens) if _anchors(recipe) else None
        for step in progress(range(start, recipe.steps)):
            group = _shuffled(len(groups), step, recipe.seed)
            features = see(student, pixels(groups[group]).to(device))  # (b, d)
            if recipe.objective == "supcon":
                classes = torch.as_tensor(labels[group], device=device)
                align = losses.supcon(features, classes, temperature=SUPCON_TEMPERATURE)
            else:
                align = losses.kernel_mse(normalized_polynomial_kernel(features, link), targets[group])
            anchor = features.new_zeros(())
            if held and recipe.anchor == "feature-l2":
                anchor = losses.feature_l2(features, held.of(groups[group]))
            elif held:
                drawn, packed = _drawn(held, recipe, step)
                texts = read(student, held.tokens[drawn], packed)
                frozen = logits(held.of(groups[group]), held.texts[drawn], held.logit_scale)
                anchor = losses.kl_anchor(logits(features, texts, held.logit_scale), frozen)
            loss = losses.total(align, anchor, weight=recipe.anchor_weight)
            total, aligned, anchored = torch.stack(
                [loss, align, anchor]
            ).tolist()  # waits for the device, once
            if not isfinite(total):
                raise FloatingPointError(f"the loss is {total} at step {step}; lower training.learning_rate")
            for param_group in optimizer.param_groups:
                param_group["lr"] = recipe.learning_rate * rate(step, recipe)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append({"step": step, "align": aligned, "anchor": anchored, "rate": rate(step, recipe)})
            if checkpoint and ((step + 1) % keep_every == 0 or step + 1 == recipe.steps):
                checkpoints.keep(checkpoint, told, parameters, optimizer, history)
    return history


def _anchors(recipe: Recipe) -> bool:
    return recipe.anchor != "none" and recipe.anchor_weight > 0


def _shuffled(g: int, step: int, seed: int) -> int:
    """The group of a step: every pass over the groups has an order of its own."""
    return int(np.random.default_rng([seed, 0, step // g]).permutation(g)[step % g])


def _drawn(
    held: Anchor, recipe: Recipe, step: int
) -> tuple[Tensor, Packed]:  # (min(m, anchor_sample),) indices of the step's prompts, and these prompts
    m, device = len(held.tokens), held.tokens.device
    if recipe.anchor_sample >= m:
        return torch.arange(m, device=device), held.packed
    rng = np.random.default_rng([recipe.seed, 1, step])
    drawn = torch.from_numpy(np.sort(rng.choice(m, recipe.anchor_sample, replace=False)))
    return drawn.to(device), pack(held.tokens[drawn.to(device)]).to(device)
