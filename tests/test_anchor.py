"""The anchor's fixed side is what the reference says, computed once."""

import numpy as np
import torch

from ask.anchor import frozen_anchor
from ask.clip import tokenize
from tests import tiny


def test_the_reference_is_asked_once_about_every_picture():
    base, pictures, asked = tiny.backbone(), tiny.pixels(100), []

    def pixels(rows):
        asked.extend(rows)
        return pictures[rows]

    rows = np.array([[90, 3, 50], [3, 7, 90]])
    held = frozen_anchor(base.model, pixels, rows, tokenize(base, ["a cat", "a dog"]))
    assert asked == [3, 7, 50, 90]
    with torch.no_grad():
        assert torch.allclose(held.of(rows[0]), base.model.encode_image(pictures[rows[0]]), atol=1e-6)
        assert torch.allclose(held.texts, base.model.encode_text(held.tokens), atol=1e-6)
    assert not held.images.requires_grad
    assert not held.texts.requires_grad
