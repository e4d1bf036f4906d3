"""Embeddings do not depend on batches, and what is remembered is what would be computed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ask import lora
from ask.embedding import embed, embed_rows, embed_texts
from tests import tiny

PIXELS = tiny.pixels(10)


class Counted:
    """Pixels with an identity that count how often they are asked for."""

    def __init__(self, name="x"):
        self.name, self.asked = name, []

    def __call__(self, rows):
        self.asked.append(len(rows))
        return PIXELS[rows]

    def identity(self, rows):
        return f"{self.name} {list(rows)}"


def test_embedding_in_batches_equals_embedding_at_once():
    base = tiny.backbone()
    whole, parts = embed(base, PIXELS), embed(base, PIXELS, batch=3)
    assert torch.allclose(whole, parts, atol=1e-6)
    assert not whole.requires_grad
    rows = np.arange(10)
    assert torch.allclose(embed_rows(base, lambda rows: PIXELS[rows], rows, batch=4), whole, atol=1e-6)


def test_texts_in_batches_equal_texts_at_once():
    base, texts = tiny.backbone(), ["a cat", "a dog", "a red car", "two birds", "a cat"]
    assert torch.allclose(embed_texts(base, texts, batch=2), embed_texts(base, texts), atol=1e-6)


def test_what_is_remembered_is_not_computed_again(tmp_path):
    base, rows, first, second = tiny.backbone(), np.arange(10), Counted(), Counted()
    computed = embed_rows(base, first, rows, batch=4, kept=tmp_path)
    assert first.asked == [4, 4, 2]
    assert torch.equal(embed_rows(base, second, rows, batch=4, kept=tmp_path), computed)
    assert second.asked == []
    assert not list(tmp_path.glob("*.partial"))


def test_an_interrupted_embedding_goes_on(tmp_path):
    class Dying(Counted):
        def __call__(self, rows):
            if 9 in rows:
                raise KeyboardInterrupt
            return super().__call__(rows)

    base, rows, after = tiny.backbone(), np.arange(10), Counted()
    with pytest.raises(KeyboardInterrupt):
        embed_rows(base, Dying(), rows, batch=4, kept=tmp_path)
    assert torch.allclose(
        embed_rows(base, after, rows, batch=4, kept=tmp_path), embed(base, PIXELS), atol=1e-6
    )
    assert 4 not in after.asked[1:]


def test_other_weights_scales_and_pictures_are_not_mistaken_for_what_is_remembered(tmp_path):
    base, rows = tiny.backbone(), np.arange(3)
    for scale in (8.0, 16.0):
        adapted = tiny.teach(lora.adapt(tiny.backbone().model, 4, scale, seed=0))
        seen = embed_rows(replace(base, model=adapted), Counted(), rows, kept=tmp_path)
        assert torch.allclose(seen, embed(replace(base, model=adapted), PIXELS[:3]), atol=1e-6)
    embed_rows(base, Counted(), rows, kept=tmp_path)
    embed_rows(base, Counted("y"), rows, kept=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
