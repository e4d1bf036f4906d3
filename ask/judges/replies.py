"""Replies that are computed instead of asked for: from a wanted score to digit probabilities.

Shared by the judges that simulate and measure. In reading order: `digit_probabilities`, `replies`.
"""

import numpy as np

from ask.judges import DIGITS, Reply

DECIMALS = 4  # so many say all there is to say; it also keeps the last bits of a processor out of the answers


def digit_probabilities(
    mean: np.ndarray,  # (n,) wanted scores in [1, V]
    *,
    spread: float,  # width of the peak, in digits
    scale: int,  # V
    favours: tuple[int, ...] = (),
    heaping: float = 0.0,  # nats
) -> np.ndarray:  # (n, V), rows sum to one up to rounding
    """A peak around each mean, p(v) ∝ exp(-(v - mean)² / 2·spread² + heaping·[v favoured]).

    With ``heaping`` the favoured digits win far from their own place, as people's and models' round numbers
    do: the most probable digit then says less than the expectation.
    """
    values = np.arange(1, scale + 1)
    logits = -((values - mean[:, None]) ** 2) / (2 * spread**2) + heaping * np.isin(values, favours)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).round(DECIMALS)


def replies(
    probabilities: np.ndarray,  # (n, V)
    *,
    provider: str,
    logprobs: bool = True,  # whether the judge shows probabilities, or its most probable digit only
) -> list[Reply]:
    """One reply per row; digits of probability zero are not returned."""
    best = probabilities.argmax(-1)
    shown = probabilities.tolist() if logprobs else [[]] * len(probabilities)
    return [
        Reply({DIGITS[v]: p for v, p in enumerate(row) if p > 0}, DIGITS[top], provider)
        for row, top in zip(shown, best, strict=True)
    ]
