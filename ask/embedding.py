"""Embeddings of whole sets of pictures and prompts, un-normalised, in float32 on the CPU.

In reading order: `embed` (pixels that are there), `embed_rows` (as many pictures as there may be), `embed_texts`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ask.clip import Backbone, tokenize
from ask.towers import image_features, text_features
from ask.weights import fingerprint


@torch.no_grad()
def embed(
    backbone: Backbone, pixels: Tensor, batch: int = 128
) -> Tensor:  # (n, 3, h, w) -> (n, d) on the CPU
    """Un-normalised features of preprocessed pictures."""
    device = backbone.model.logit_scale.device
    parts = [image_features(backbone.model, chunk.to(device)).float() for chunk in pixels.split(batch)]
    return torch.cat(parts).cpu()


def embed_rows(
    backbone: Backbone,
    pixels: Callable[[np.ndarray], Tensor],  # rows (n,) -> (n, 3, h, w); see ask.datasets.pixels
    rows: np.ndarray,  # (n,)
    batch: int = 512,
    *,
    kept: Path | None = None,  # a folder that remembers batches between runs, for pixels with an identity
) -> Tensor:  # (n, d) on the CPU
    """Un-normalised features of as many pictures as there may be.

    Two batches of pixels are in memory: one is embedded while the next is decoded. A batch is remembered under a hash
    of the weights, the pictures' files, their preprocessing and the arithmetic, so an interrupted run goes on.
    """
    chunks = np.array_split(rows, np.arange(batch, len(rows), batch))
    identity = getattr(pixels, "identity", None) if kept else None
    arithmetic = _arithmetic(backbone) if identity else ""

    def ready(chunk: np.ndarray) -> tuple[Path | None, Tensor | None]:
        """Where a batch is remembered, and its pixels unless it is."""
        told = identity(chunk) if identity else None
        file = kept / f"{sha256(f'{arithmetic} {told}'.encode()).hexdigest()}.safetensors" if told else None
        return file, None if file and file.is_file() else pixels(chunk)

    parts = []
    with ThreadPoolExecutor(1) as ahead:
        following = ahead.submit(ready, chunks[0])
        for number in range(len(chunks)):
            file, shown = following.result()
            if number + 1 < len(chunks):
                following = ahead.submit(ready, chunks[number + 1])
            if shown is None:
                parts.append(load_file(file)["features"])
                continue
            parts.append(embed(backbone, shown))
            if file:
                _remember(file, parts[-1])
    return torch.cat(parts)


@torch.no_grad()
def embed_texts(backbone: Backbone, texts: Sequence[str], batch: int = 1024) -> Tensor:  # (m, d) on the CPU
    """Un-normalised features of prompts."""
    device = backbone.model.logit_scale.device
    chunks = tokenize(backbone, texts).split(batch)
    return torch.cat([text_features(backbone.model, chunk.to(device)).float() for chunk in chunks]).cpu()


@torch.no_grad()
def _arithmetic(backbone: Backbone) -> str:
    """What besides the pictures decides every bit: the weights as they are now, and how they are computed with.

    A picture of noise is embedded for what no weight tells: activation, scale of an adapter, precision.
    """
    device = backbone.model.logit_scale.device
    noise = torch.randn(1, 3, *backbone.model.visual.image_size, generator=torch.Generator().manual_seed(0))
    seen = image_features(backbone.model, noise.to(device)).float().cpu().numpy().tobytes().hex()
    return f"{fingerprint(backbone.model)} {seen} {torch.__version__} {device.type} {torch.get_num_threads()}"


def _remember(file: Path, features: Tensor) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{uuid4().hex}.partial")
    save_file({"features": features.contiguous()}, partial)
    partial.replace(file)
