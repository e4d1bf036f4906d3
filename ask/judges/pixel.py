"""A judge without a model: colour and lighting, measured from the pictures themselves.

It makes real photographs usable on a machine without network or key, and its verdicts can be checked by eye:
two pictures are alike if their overall colour, their light and dark, and their vividness are. In reading
order: `Pixel`, `measure`, `similarity`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from ask.datasets.pictures import Pictures
from ask.judges import Computed, JudgeError, Pair, Reply
from ask.judges.replies import digit_probabilities, replies

CRITERION = "colour and lighting"
RULE = 2  # raise it whenever the same pictures come to get other scores; a test notices
SIDE = 64  # pixels; whole-picture colour and light need no more
VIVID = (0.02, 0.05, 0.10)  # chroma: not grey, coloured, vivid
# One step of each measurement: near its standard deviation over 600 photographs of dogs. Levels and vividness
# come in threes that move together, so each of the three has √3 times the step. The reach spreads the
# photographs' pairs over 1..9: a twentieth scores below 1.5, a twentieth above 7.6, the median is 4.3.
UNITS = np.array([0.10, 0.025, 0.025, *[0.10 * 3**0.5] * 3, *[0.25 * 3**0.5] * 3])
REACH = 2.8

# Oklab (Ottosson 2020): equal distances look about equally different; L in [0, 1], a and b within ±0.4
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


class Pixel(Computed):
    """Scores pairs by `similarity`; measures each picture once.

    Raises:
        JudgeError: for another criterion than colour and lighting, or a setting that does not fit.
    """

    batch_size = 2048

    def __init__(
        self,
        name: str,
        entry: Mapping[str, Any],  # may set `spread`, the width of the digit distribution in digits
        criterion: str,
        pictures: Pictures,
        paths: Sequence[str],  # path of each row of the manifest
        *,
        scale: int = 9,
    ):
        if criterion != CRITERION:
            raise JudgeError(
                f"judge {name} measures {CRITERION!r} only, but was asked for {criterion!r}; choose that"
            )
        if unknown := sorted(set(entry) - {"kind", "spread"}):
            raise JudgeError(f"judge {name} has no setting {unknown[0]!r}; a pixel judge knows spread")
        self.spread, self.scale = entry.get("spread", 0.8), scale
        if isinstance(self.spread, bool) or not isinstance(self.spread, (int, float)) or self.spread <= 0:
            raise JudgeError(f"spread of judge {name} must be a number > 0, but is {self.spread!r}")
        self.identity = {
            "kind": "pixel",
            "name": name,
            "criterion": criterion,
            "settings": {"spread": float(self.spread)},
            "scale": scale,
            "rule": RULE,
        }
        self._pictures, self._paths = pictures, paths
        self._measured: dict[str, np.ndarray] = {}

    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """One reply per pair, in order.

        Raises:
            PictureError: if a picture cannot be read.
        """
        first = np.stack([self._measure(pair.first, pair.first_row) for pair in pairs])
        second = np.stack([self._measure(pair.second, pair.second_row) for pair in pairs])
        mean = 1 + (self.scale - 1) * similarity(first, second)
        return replies(digit_probabilities(mean, spread=self.spread, scale=self.scale), provider="pixel")

    def _measure(self, image: str, row: int) -> np.ndarray:
        if image not in self._measured:
            self._measured[image] = measure(self._pictures.load(self._paths[row]))
        return self._measured[image]


def measure(picture: Image.Image) -> np.ndarray:  # (9,)
    """What a glance takes in: mean L, a, b; dark, middle and bright level; shares of vivid pixels (Oklab)."""
    small = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX), float) / 255
    linear = np.where(small <= 0.04045, small / 12.92, ((small + 0.055) / 1.055) ** 2.4)
    oklab = (np.cbrt(linear @ _TO_CONES.T) @ _TO_OKLAB.T).reshape(-1, 3)
    levels = np.quantile(oklab[:, 0], (0.1, 0.5, 0.9))
    chroma = np.hypot(oklab[:, 1], oklab[:, 2])
    return np.concatenate([oklab.mean(0), levels, [(chroma > floor).mean() for floor in VIVID]])


def similarity(
    first: np.ndarray,  # (n, 9) measurements
    second: np.ndarray,  # (n, 9)
) -> np.ndarray:  # (n,) in (0, 1]
    """Gaussian kernel, exp(-Σ ((x - y) / unit)² / reach²), so its matrices are positive semidefinite."""
    return np.exp(-(((first - second) / UNITS) ** 2).sum(-1) / REACH**2)
