"""The miniature world's judge: it knows what the pictures are made of and answers as if it had to look.

Its opinion of a pair is the criterion's true similarity, bent by everything that ails real judges:

    noise       normal error per pair, in digits; the same in either order
    order_bias  normal preference per picture, in digits, for the picture shown first
    steepness   of a logistic curve that bends opinions towards "different" and "the same"; 0 bends nothing
    middle      similarity that this curve leaves half-way: the lower, the more lenient the judge
    indefinite  share of the opinion that a fair coin per pair decides: A like B, B like C, A unlike C
    spread      width of the digit distribution, in digits
    heaping     pull of the favourite digits ``favours``, in nats
    logprobs    whether the distribution is shown, or its most probable digit only

All randomness is a hash of the seed and the two pictures, so an answer does not depend on what else is asked,
or when.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

from ask.datasets import factors
from ask.judges import Computed, JudgeError, Pair, Reply
from ask.judges.replies import digit_probabilities, replies

RULE = 2  # raise it whenever the same settings come to give other answers; a test notices
DEFAULTS = {
    "noise": 0.0,
    "order_bias": 0.0,
    "steepness": 0.0,
    "middle": 0.5,
    "indefinite": 0.0,
    "spread": 1.0,
    "heaping": 0.0,
    "favours": [2, 5, 8],
    "logprobs": True,
}


class Simulated(Computed):
    """A judge of the miniature world; see the module for its ``entry`` in the catalogue.

    Raises:
        JudgeError: for an unknown setting, or one of the wrong kind or range.
        ValueError: for a criterion that the world does not know.
    """

    batch_size = 8192

    def __init__(
        self,
        name: str,
        entry: Mapping[str, Any],
        criterion: str,
        manifest: pd.DataFrame,  # with the factor columns; pairs name its rows
        *,
        seed: int,
        scale: int = 9,
    ):
        self.settings = _settings(name, entry)
        self.criterion, self.scale = criterion, scale
        self.identity = {
            "kind": "simulated",
            "name": name,
            "criterion": criterion,
            "settings": self.settings,
            "scale": scale,
            "seed": seed,
            "rule": RULE,
            "similarity": _probe(criterion),
        }
        self._manifest = manifest
        self._stream = f"{name}/{criterion}/{seed}"

    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """One reply per pair, in order."""
        first, second = (_words(hashes) for hashes in ([p.first for p in pairs], [p.second for p in pairs]))
        mean = 1 + (self.scale - 1) * self._opinion(pairs, first, second)
        mean += self.settings["noise"] * ndtri(self._draw("noise", *_unordered(first, second)))
        liking = ndtri(self._draw("order", first)) - ndtri(self._draw("order", second))
        mean += self.settings["order_bias"] * liking / np.sqrt(2)
        probabilities = digit_probabilities(
            np.clip(mean, 1, self.scale),
            spread=self.settings["spread"],
            scale=self.scale,
            favours=tuple(self.settings["favours"]),
            heaping=self.settings["heaping"],
        )
        return replies(probabilities, provider="simulated", logprobs=self.settings["logprobs"])

    def _opinion(
        self, pairs: list[Pair], first: np.ndarray, second: np.ndarray
    ) -> np.ndarray:  # (n,) in [0, 1]
        rows = [[p.first_row for p in pairs], [p.second_row for p in pairs]]
        alike = factors.similarity(self.criterion, *(self._manifest.iloc[row] for row in rows))
        if k := self.settings["steepness"]:
            low, high, bent = (expit(k * (x - self.settings["middle"])) for x in (0.0, 1.0, alike))
            alike = (bent - low) / (high - low)
        coin = self._draw("coin", *_unordered(first, second)) < 0.5
        return (1 - self.settings["indefinite"]) * alike + self.settings["indefinite"] * coin

    def _draw(self, purpose: str, *words: np.ndarray) -> np.ndarray:  # (n,) uniform in (0, 1)
        digest = hashlib.sha256(f"{self._stream}/{purpose}".encode()).digest()
        state = np.full(len(words[0]), int.from_bytes(digest[:8]), np.uint64)
        for word in words:
            state = _scramble(state ^ word)
        return ((state >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53


def _settings(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with defaults filled in, as plain JSON."""
    given = {key: value for key, value in entry.items() if key != "kind"}
    if unknown := sorted(set(given) - set(DEFAULTS)):
        raise JudgeError(
            f"judge {name} has no setting {unknown[0]!r}; a simulated judge knows {', '.join(DEFAULTS)}"
        )
    settings = DEFAULTS | given
    for key in ("noise", "order_bias", "steepness", "middle", "indefinite", "spread", "heaping"):
        value = settings[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise JudgeError(f"{key} of judge {name} must be a number >= 0, but is {value!r}")
        settings[key] = float(value)
    if settings["spread"] == 0 or settings["indefinite"] > 1:
        raise JudgeError(f"judge {name} needs spread > 0 and indefinite <= 1, but has {settings}")
    if not isinstance(settings["logprobs"], bool):
        raise JudgeError(f"logprobs of judge {name} must be true or false, but is {settings['logprobs']!r}")
    return settings | {"favours": [int(digit) for digit in settings["favours"]]}


def _probe(criterion: str) -> str:
    """A short hash of the similarity rule's values on fixed pictures: another rule is another judge."""
    rng = np.random.default_rng(0)
    sample = pd.concat([factors.species(rng, 128), factors.views(rng, 128)], axis=1)
    alike = factors.similarity(criterion, sample.iloc[:64], sample.iloc[64:])
    return hashlib.sha256(" ".join(f"{value:.6f}" for value in alike).encode()).hexdigest()[:16]


def _words(hashes: Sequence[str]) -> np.ndarray:  # (n,) uint64
    return np.array([int(text[:16], 16) for text in hashes], np.uint64)


def _unordered(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(first, second), np.maximum(first, second)


def _scramble(x: np.ndarray) -> np.ndarray:  # (n,) uint64
    """One step of SplitMix64 (Steele, Lea & Flood 2014): neighbouring inputs give unrelated outputs."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
