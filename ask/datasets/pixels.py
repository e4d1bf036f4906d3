"""Pixels for a model: pictures decoded and preprocessed once, kept as bytes, and made floats where they are needed.

A CLIP's preprocessing resizes and crops a picture to bytes and then scales and shifts them. Kept before that last
step, a picture takes a quarter of the memory and of the way to a GPU, and its floats are the same to the bit.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import numpy as np
import PIL
import torch
from torch import Tensor

from ask.datasets.pictures import Pictures

READERS = 8  # threads that decode


class Pixels:
    """Preprocessed pictures by row of a manifest.

    Called with rows (n,), it returns (n, 3, h, w) on its device. A preprocessing that does not end as CLIP's does is
    kept whole.
    """

    def __init__(
        self,
        pictures: Pictures,
        paths: np.ndarray,  # (rows,)
        preprocess: Callable,  # PIL image -> (3, h, w)
        *,
        rows: Iterable[int] = (),  # decoded now and kept
        device: torch.device | str = "cpu",
    ):
        self._pictures, self._paths, self._device = pictures, paths, torch.device(device)
        self._crop, self._normalize = _divided(preprocess)
        self._told = repr(preprocess)
        kept = list(rows)
        self._places = np.full(len(paths), -1)
        self._places[kept] = np.arange(len(kept))
        self._kept = self._decoded(kept).to(self._device) if kept else None

    def __call__(self, rows: Iterable[int]) -> Tensor:  # (n, 3, h, w) on the device
        """The pixels of some rows, decoded now where they are not kept."""
        rows = np.fromiter(rows, int)
        places = self._places[rows]
        if self._kept is not None and (places >= 0).all():
            return self._normalize(self._kept[torch.from_numpy(places).to(self._device)])
        decoded = self._decoded(rows)
        if self._device.type == "cuda":
            decoded = decoded.pin_memory().to(self._device, non_blocking=True)
        return self._normalize(decoded)

    def identity(self, rows: Iterable[int]) -> str | None:
        """A hash of what the rows' pixels are made of: files and preprocessing; None if the latter has no name."""
        if " at 0x" in self._told:  # a function of someone's own
            return None
        digest = sha256(f"{self._told} Pillow {PIL.__version__}".encode())
        for path in self._paths[np.fromiter(rows, int)]:
            digest.update(self._pictures.digest(path))
        return digest.hexdigest()

    def _decoded(self, rows: Iterable[int]) -> Tensor:  # (n, 3, h, w)
        with ThreadPoolExecutor(READERS) as threads:
            paths = self._paths[list(rows)]
            return torch.stack([*threads.map(lambda path: self._crop(self._pictures.load(path)), paths)])


def _divided(preprocess: Callable) -> tuple[Callable, Callable]:
    """Two steps that give what `preprocess` gives: PIL image -> bytes (3, h, w), and bytes (n, 3, h, w) -> floats."""
    from torchvision.transforms import Compose, Normalize, PILToTensor, ToTensor  # takes a second

    steps = getattr(preprocess, "transforms", [])
    if len(steps) < 2 or type(steps[-1]) is not Normalize or not isinstance(steps[-2], ToTensor):
        return preprocess, lambda pixels: pixels
    mean, std = (torch.tensor(value).view(-1, 1, 1) for value in (steps[-1].mean, steps[-1].std))

    def normalize(pixels: Tensor) -> Tensor:
        on = pixels.device
        return pixels.float().div_(255).sub_(mean.to(on)).div_(std.to(on))

    return Compose([*steps[:-2], PILToTensor()]), normalize
