"""Embedding files of pictures: a plain open_clip loop against ours, which decodes ahead."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ask import clip
from ask.datasets.pictures import open_pictures
from ask.datasets.pixels import Pixels
from ask.embedding import embed_rows
from benchmarks.measure import interleaved, table


def embedding(pictures: int = 48, batch: int = 16, repeats: int = 3) -> list[dict]:
    """JPEG files of 640 x 480 through ViT-B/32; ours also from what it remembers."""
    base = clip.load_backbone("vit-b-32", {"arch": "ViT-B-32-quickgelu", "random": 0})
    with tempfile.TemporaryDirectory() as folder:
        paths = np.array([f"{row}.jpg" for row in range(pictures)])
        for row, path in enumerate(paths):
            noise = np.random.default_rng(row).integers(0, 256, (15, 20, 3), np.uint8)
            Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC).save(Path(folder, path))
        pixels = Pixels(open_pictures(folder), paths, base.preprocess)
        rows, kept = np.arange(pictures), Path(folder, "kept")

        @torch.no_grad()
        def plain() -> torch.Tensor:
            parts = []
            for chunk in np.split(paths, range(batch, pictures, batch)):
                images = [base.preprocess(Image.open(Path(folder, path)).convert("RGB")) for path in chunk]
                parts.append(base.model.encode_image(torch.stack(images)))
            return torch.cat(parts)

        def ours(kept: Path | None = None) -> torch.Tensor:
            return embed_rows(base, pixels, rows, batch, kept=kept)

        torch.testing.assert_close(ours(), plain(), rtol=1e-4, atol=1e-5)
        found = interleaved(
            {
                "open_clip, a batch at a time": lambda: plain(),
                "ours": lambda: ours(),
                "ours, remembered": lambda: ours(kept),
            },
            repeats,
        )
    return table(f"embedding {pictures} JPEG files, ViT-B/32", found)
