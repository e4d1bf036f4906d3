"""What the frozen model says of the training pictures and the prompts, computed once: the anchor's fixed side.

There is no augmentation, so the reference sees the same pictures and prompts at every step and need not see them
again. It is computed as the student is, in the same precision, and before the first step: an anchor of an
untouched student is zero, and a resumed run continues to the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ask.packing import Packed, pack
from ask.towers import image_features, text_features

CHUNK = 64  # pictures that the reference sees at a time


@dataclass(frozen=True)
class Anchor:
    """The reference's features of every picture that is trained on and of the whole text bank."""

    images: Tensor  # (n, d)
    rows: np.ndarray  # (n,) of the manifest, rising
    texts: Tensor  # (m, d)
    tokens: Tensor  # (m, L)
    packed: Packed  # the same prompts
    logit_scale: Tensor  # ()

    def of(self, rows: np.ndarray) -> Tensor:  # (b,) rows -> (b, d)
        """The reference's features of some pictures."""
        return self.images[torch.from_numpy(np.searchsorted(self.rows, rows)).to(self.images.device)]


@torch.no_grad()
def frozen_anchor(
    reference: nn.Module,
    pixels: Callable[[np.ndarray], Tensor],  # rows (b,) -> (b, 3, h, w) preprocessed
    rows: np.ndarray,  # any shape, with repeats
    tokens: Tensor,  # (m, L)
) -> Anchor:
    """The anchor of a reference, on the reference's device."""
    rows, device = np.unique(rows), reference.logit_scale.device
    chunks = np.split(rows, range(CHUNK, len(rows), CHUNK))
    images = torch.cat([image_features(reference, pixels(chunk).to(device)) for chunk in chunks])
    tokens, packed = tokens.to(device), pack(tokens).to(device)
    texts = text_features(reference, tokens, packed)
    return Anchor(images, rows, texts, tokens, packed, reference.logit_scale.detach())
