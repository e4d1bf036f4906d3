"""Judges: whoever scores pairs of pictures under a criterion, with a single digit from 1 to 9.

A judge is anything that fits the `Judge` protocol: a served model, a simulation, a measurement, or a folder
of old answers. It is asked about a list of `Pair` and returns one `Reply` per pair; what a reply is worth is
decided later and elsewhere (``verdict``), so that another rule never means asking again.
"""

from dataclasses import dataclass
from typing import Any, Protocol

DIGITS = "123456789"  # the rating digits; ASK, appendix G


class JudgeError(ValueError):
    """A judge is unknown, set up wrongly, or asked for what it cannot judge; the message names it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two pictures in the order in which the judge sees them."""

    first: str  # hash of the prepared picture
    second: str
    first_row: int  # its row in the manifest
    second_row: int

    @property
    def swapped(self) -> bool:
        """Whether the order differs from the canonical one, in which the smaller hash comes first."""
        return self.first > self.second


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one pair, before any interpretation."""

    digits: dict[str, float]  # digit -> probability as returned, not renormalised; empty if none were
    text: str  # the answer itself
    provider: str  # who served it
    tokens: int = 0
    cost: int = 0  # micro-dollars


class Judge(Protocol):
    """Scores pairs.

    Attributes:
        identity: whatever determines an answer besides the two pictures and their order, as JSON: at least
        ``kind``,
            ``name`` and ``criterion``, then settings, prompt and the version of the rule. Answers are kept
            under it.
        batch_size: how many pairs `ask` likes to get at once; after each batch the answers are safe on disk.
    """

    identity: dict[str, Any]
    batch_size: int

    def ask(self, pairs: list[Pair]) -> list[Reply]:
        """One reply per pair, in order."""
        ...
