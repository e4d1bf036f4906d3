"""A training step as one would write it down: what the fast one is compared with, in speed and in its losses.

Every step encodes its prompts at the full context and asks the frozen model about the same pictures again, and, unless
``bank_once``, about the same prompts.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from ask import losses
from ask.clip import logits
from ask.kernels import Link, normalized_polynomial_kernel
from ask.lora import trainable_parameters
from ask.train import Recipe, rate


def plain_steps(
    student: nn.Module,
    reference: nn.Module,
    *,
    pixels: Callable[[np.ndarray], Tensor],  # rows (b,) -> (b, 3, h, w)
    groups: np.ndarray,  # (s, b) rows, a group for each step
    targets: Tensor,  # (s, b, b)
    link: Link,
    tokens: Tensor,  # (m, L)
    recipe: Recipe,
    bank_once: bool = False,
) -> Iterator[float]:
    """The loss of one step after another (ASK, Algorithm 1)."""
    optimizer = torch.optim.AdamW(
        trainable_parameters(student), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    with torch.no_grad():
        bank = reference.encode_text(tokens) if bank_once else None
    for step, (rows, target) in enumerate(zip(groups, targets, strict=True)):
        images = pixels(rows)
        with torch.no_grad():
            frozen_images = reference.encode_image(images)
            frozen_texts = reference.encode_text(tokens) if bank is None else bank
        features, texts = student.encode_image(images), student.encode_text(tokens)
        align = losses.kernel_mse(normalized_polynomial_kernel(features, link), target)
        scale = reference.logit_scale.detach()
        anchor = losses.kl_anchor(logits(features, texts, scale), logits(frozen_images, frozen_texts, scale))
        loss = losses.total(align, anchor, weight=recipe.anchor_weight)
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * rate(step, recipe)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
