"""Judges: whoever scores pairs of pictures under a criterion, with a single digit from 1 to 9.

A judge is anything that fits the `Judge` protocol: a served model, a simulation, a measurement, or a folder
of old answers. It is asked about a list of `Pair` and hands over one `Reply` per pair as soon as it has it; what
a reply is worth is decided later and elsewhere (``verdict``), so that another rule never means asking again.
`Computed` is what judges that need no one else have in common.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
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
    reason: str = ""  # why there is no verdict and the pair is not asked about again; empty if there is one
    body: dict[str, Any] | None = None  # what a server said, of which all the above but the cost is read


Keep = Callable[[Sequence[Pair], Sequence[Reply]], None]  # puts answers away for good; called as they come


class Judge(Protocol):
    """Scores pairs.

    Attributes:
        identity: whatever determines an answer besides the two pictures and their order, as JSON: at least
            ``kind``, ``name`` and ``criterion``, then settings, prompt and the version of the rule. Answers are
            kept under it.
        concurrency: how many questions can be on their way at a time; if the process is killed then, so many
            may have been paid for in vain. 0 for a judge that takes no money.
        trouble: what went wrong so far, by kind.
        doubtful: how many questions may have been paid for so far although no answer came.
    """

    identity: dict[str, Any]
    concurrency: int
    trouble: Counter[str]
    doubtful: int

    def settle(self, pairs: Sequence[Pair]) -> None:
        """Completes the identity, where something must be found out first; may ask about a few of the pairs."""
        ...

    def ask(self, pairs: Sequence[Pair], keep: Keep) -> None:
        """Hands over one reply for each pair, in any order, and returns when all were."""
        ...


class Computed(ABC):
    """A judge that computes its replies on this machine, batch by batch, and takes no money."""

    identity: dict[str, Any]
    batch_size: int
    concurrency = doubtful = 0

    @property
    def trouble(self) -> Counter[str]:
        """Nothing goes wrong half-way."""
        return Counter()

    def settle(self, pairs: Sequence[Pair]) -> None:  # noqa: B027 - what most judges need not do
        """The identity is complete from the start."""

    def ask(self, pairs: Sequence[Pair], keep: Keep) -> None:
        """Hands over the replies of a batch as soon as they are there."""
        for start in range(0, len(pairs), self.batch_size):
            batch = pairs[start : start + self.batch_size]
            replies = self.answer(batch)
            if len(replies) != len(batch):
                raise JudgeError(
                    f"judge {self.identity['name']} gave {len(replies)} replies to {len(batch)} pairs"
                )
            keep(batch, replies)

    @abstractmethod
    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """One reply per pair, in order."""
