"""On a GPU everything comes out as on the processor, to the rounding of its arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ask import clip, lora, rankings, train
from ask.compute import Compute, best_device
from ask.embedding import embed, embed_texts
from ask.evaluation import retrieval
from ask.kernels import target_kernel
from tests import tiny
from tests.test_fast_training import GROUPS, LINK, TEXTS, recipe, targets_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


def on(device):
    base = tiny.backbone()
    return replace(base, model=base.model.to(device))


def losses(device, compute):
    """Losses of twenty steps, and the factors after them."""
    base, given, pictures = on(device), recipe(20, 1e-4), tiny.pixels(24)
    reference = clip.frozen_reference(base.model)
    student = lora.adapt(base.model, given.rank, given.alpha, seed=0)
    history = train.train(
        student,
        reference,
        pixels=lambda rows: pictures[rows],
        groups=GROUPS,
        targets=targets_of(GROUPS),
        link=LINK,
        anchor_tokens=clip.tokenize(base, TEXTS),
        recipe=given,
        compute=compute,
    )
    return [h["align"] + given.anchor_weight * h["anchor"] for h in history]


def test_auto_finds_it():
    assert best_device().type == "cuda"


@pytest.mark.parametrize(
    ("compute", "tolerance"),
    [
        (Compute("cuda", precision="float32"), 1e-4),
        (Compute("cuda", precision="float32", checkpointing=True), 1e-4),
        (Compute("cuda", precision="float32", compiled=True), 1e-4),
        (Compute("cuda"), 0.05),
        (Compute("cuda", compiled=True), 0.05),
    ],
)
def test_training_takes_the_same_steps(compute, tolerance):
    assert losses("cuda", compute) == pytest.approx(losses("cpu", Compute()), rel=tolerance)


def test_embeddings_are_the_same():
    for there, here in (
        (embed(on("cuda"), tiny.pixels()), embed(on("cpu"), tiny.pixels())),
        (embed_texts(on("cuda"), TEXTS), embed_texts(on("cpu"), TEXTS)),
    ):
        assert torch.allclose(there, here, atol=1e-4)


def test_rankings_are_the_same_and_ties_too():
    similarity = torch.randint(0, 5, (40, 40), generator=torch.Generator().manual_seed(0)).float()
    relevance = np.arange(40)[:, None] % 4 == np.arange(40)[None] % 4
    there, here = rankings.ranking(similarity.cuda(), relevance), rankings.ranking(similarity, relevance)
    assert (there.relevance == here.relevance).all()
    features, labels = torch.randn(60, 8, generator=torch.Generator().manual_seed(1)), np.arange(60) % 5
    assert retrieval(features.cuda(), labels) == pytest.approx(retrieval(features, labels), abs=1e-4)


def test_target_kernels_are_the_same():
    similarity = targets_of(GROUPS)
    similarity.diagonal(dim1=1, dim2=2).fill_(1)
    assert torch.allclose(target_kernel(similarity.cuda()).cpu(), target_kernel(similarity), atol=1e-10)
