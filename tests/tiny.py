"""Very small CLIP models for the tests: both towers, CLIP's tokenizer, 32 x 32 pixels, 16 tokens, d = 24."""

import copy
import functools
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from ask.clip import Backbone, load_backbone
from ask.lora import factors

IMAGE = {"image_size": 32, "width": 32, "layers": 2, "head_width": 16, "patch_size": 16}
TEXT = {"context_length": 16, "vocab_size": 49408, "width": 32, "layers": 2, "heads": 2}
PLAIN = {"embed_dim": 24, "vision_cfg": IMAGE, "text_cfg": TEXT}
OWN = {"vision_cfg": IMAGE | {"block_type": "custom"}, "text_cfg": TEXT | {"block_type": "custom"}}
"""Changes to `PLAIN` that make open_clip use its own attention instead of torch's."""


def write(folder: Path, name: str, **changes) -> str:
    """A model config in a file; its path."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(PLAIN | changes))
    return str(path)


def backbone(seed: int = 0, **changes) -> Backbone:
    """A random tiny CLIP, the caller's to change."""
    built = _build(seed, json.dumps(changes))
    return replace(built, model=copy.deepcopy(built.model))


def pixels(count: int = 3, seed: int = 0) -> torch.Tensor:  # (count, 3, 32, 32)
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def teach(model, seed: int = 0, size: float = 0.05):
    """Move every factor of an adapted model by noise, as a training would; returns the model."""
    noise = torch.Generator().manual_seed(seed)
    for factor in factors(model).values():
        factor.data += size * torch.randn(factor.shape, generator=noise, dtype=factor.dtype)
    return model


@functools.cache
def _build(seed: int, changes: str) -> Backbone:
    with tempfile.TemporaryDirectory() as folder:
        config = write(Path(folder), "tiny", **json.loads(changes))
        return load_backbone("tiny", {"config": config, "random": seed})
