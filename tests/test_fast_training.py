"""The fast loop takes the steps of the plain one: same losses, to the rounding of the numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ask import clip, lora, train
from ask.compute import Compute
from ask.kernels import Link
from benchmarks.plain import plain_steps
from tests import tiny
from tests.test_train import RECIPE

LINK = Link(0.05, 0.5)
GROUPS = np.arange(24).reshape(4, 6)
TEXTS = [
    f"a photo of a {colour} {thing}" for colour in ("red", "blue") for thing in ("cat", "dog", "car bus")
]


def recipe(steps, learning_rate):
    return replace(RECIPE, steps=steps, learning_rate=learning_rate, warmup=5, anchor_sample=1000)


def both(base, steps, dtype, pictures, groups, compute, learning_rate=1e-4):
    """Losses of the fast loop and of the plain one, from the same start."""
    given, found, targets = recipe(steps, learning_rate), [], targets_of(groups)
    tokens = clip.tokenize(base, TEXTS)
    for fast in (True, False):
        reference = clip.frozen_reference(base.model).to(dtype)
        student = lora.adapt(clip.frozen_reference(base.model).to(dtype), given.rank, given.alpha, seed=0)
        if fast:
            history = train.train(
                student,
                reference,
                pixels=lambda rows: pictures[rows],
                groups=groups,
                targets=targets,
                link=LINK,
                anchor_tokens=tokens,
                recipe=given,
                compute=compute,
            )
            found.append([h["align"] + given.anchor_weight * h["anchor"] for h in history])
        else:
            order = [train._shuffled(len(groups), step, given.seed) for step in range(steps)]
            plain = plain_steps(
                student,
                reference,
                pixels=lambda rows: pictures[rows],
                groups=groups[order],
                targets=targets[order].to(dtype),
                link=LINK,
                tokens=tokens,
                recipe=given,
            )
            found.append(list(plain))
    return found


def targets_of(groups):
    scores = torch.rand(*groups.shape, groups.shape[1], generator=torch.Generator().manual_seed(3)).double()
    return (scores + scores.mT) / 2


# Adam divides every gradient by its own size, so rounding grows with the rate: float32 has a rate of the paper's grid.
@pytest.mark.parametrize(
    ("dtype", "rate", "tolerance"), [(torch.float64, 5e-3, 1e-9), (torch.float32, 1e-4, 1e-4)]
)
@pytest.mark.parametrize("compute", [Compute(), Compute(checkpointing=True)])
def test_losses_agree_over_fifty_steps(dtype, rate, tolerance, compute):
    fast, plain = both(tiny.backbone(), 50, dtype, tiny.pixels(24).to(dtype), GROUPS, compute, rate)
    assert fast == pytest.approx(plain, rel=tolerance, abs=0 if dtype == torch.float32 else 1e-9)
    assert plain[48:] != pytest.approx(plain[:2], rel=0.01)


def test_bfloat16_towers_stay_near():
    compute = Compute(precision="bfloat16")
    fast, plain = both(tiny.backbone(), 20, torch.float32, tiny.pixels(24), GROUPS, compute)
    assert fast != plain
    assert fast == pytest.approx(plain, rel=0.05)


@pytest.mark.slow
def test_compiled_towers_take_the_same_steps():
    compute = Compute(compiled=True)
    fast, plain = both(tiny.backbone(), 8, torch.float32, tiny.pixels(24), GROUPS, compute)
    assert fast == pytest.approx(plain, rel=1e-4)


@pytest.mark.slow
def test_a_step_at_the_shape_of_vit_b_16_agrees():
    base = clip.load_backbone("b", {"arch": "ViT-B-16-quickgelu", "random": 0})
    pictures = torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    fast, plain = both(base, 2, torch.float32, pictures, np.arange(4)[None], Compute())
    assert fast == pytest.approx(plain, rel=1e-5)
