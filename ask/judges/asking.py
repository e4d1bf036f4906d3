"""Asking many questions at once: attempts, waits, money and giving up, with nothing received ever lost.

A question is whatever the caller sends a body for. Each is asked until it has an answer or a reason why it has
none; then it is kept at once, before anything else happens. In reading order: `Rules`, `StoppedError`, `Asking`.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from ask.judges.budget import Budget, BudgetSpentError
from ask.judges.outcome import Outcome, cost, judge_response
from ask.judges.pace import Pace
from ask.judges.transport import Received, TransportError

Question = TypeVar("Question")
OVERLOADED = frozenset({429, 529})


@dataclass(frozen=True)
class Rules:
    """What changes how fast and how stubbornly is asked, and never an answer."""

    concurrency: int = 10
    attempts: int = 6  # for one question
    first_wait: float = 1.0  # seconds; doubles with each attempt, and a random part of it is waited
    longest_wait: float = 60.0
    max_wait: float = 300.0  # a server that wants a longer wait ends the run
    skips_in_a_row: int = 20  # then it is the configuration, not the pictures
    input_price: float = 0.0  # dollars per million tokens, where the server does not say what it took
    output_price: float = 0.0


class StoppedError(Exception):
    """The run ended early. Everything received until then is kept; running again goes on from there."""

    def __init__(self, reason: str, told: str = "", wait: float | None = None):
        super().__init__(told or reason)
        self.reason = reason
        self.wait = wait  # seconds after which it is worth running again, if the server said so


class Asking(Generic[Question]):
    """One run over many questions.

    Attributes:
        trouble: how often something went wrong so far, by kind: retries, skipped and failed questions.
    """

    def __init__(
        self,
        post: Callable[[bytes], Awaitable[Received]],
        body: Callable[[Question], bytes],
        keep: Callable[[Question, Outcome, int], None],  # with the cost in micro-dollars
        *,
        rules: Rules,
        budget: Budget,
        trouble: Counter[str],
        pinned: Sequence[str] = (),  # providers; see `judge_response`
    ):
        self.trouble = trouble
        self._post, self._body, self._keep = post, body, keep
        self._rules, self._budget, self._pinned = rules, budget, pinned
        self._pace = Pace(rules.concurrency)
        self._stop = asyncio.Event()
        self._why: StoppedError | None = None
        self._unanswered = 0  # in a row
        self._last_message = ""

    async def run(self, questions: Iterable[Question]) -> None:
        """Asks everything; questions that no attempt answered are counted as failed and left out.

        Raises:
            StoppedError: for whatever makes going on useless; answers that were on their way are kept.
        """
        queue = iter(questions)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._rules.concurrency):
                    group.create_task(self._work(queue))
        except BaseExceptionGroup as raised:  # the disk is full, say: the first tells what happened
            raise raised.exceptions[0] from None
        if self._why:
            raise self._why

    async def once(self, question: Question) -> Outcome:
        """Asks one question until it is answered, skipped, or refused for good, and keeps the answer."""
        outcome = await self._answer(question)
        if self._why:
            raise self._why
        return outcome

    def interrupt(self) -> None:
        """Ends the run from within its loop: no more requests, and waits end at once."""
        self._end(StoppedError("interrupted"))

    async def _work(self, queue: Iterator[Question]) -> None:
        for question in queue:
            if self._stop.is_set():
                return
            await self._answer(question)

    async def _answer(self, question: Question) -> Outcome | None:
        for attempt in range(self._rules.attempts):
            outcome = await self._attempt(question)
            if outcome is None or outcome.kind in ("ok", "skip"):
                return outcome
            self.trouble[outcome.reason] += 1
            if outcome.kind == "fatal":
                self._end(StoppedError(outcome.reason, outcome.message, outcome.wait))
                return outcome
            if outcome.wait:
                self._pace.close(outcome.wait)
            elif attempt + 1 < self._rules.attempts:
                await self._pause(attempt)
        self.trouble["failed"] += 1
        self._count_unanswered("failures")
        return outcome

    async def _attempt(self, question: Question) -> Outcome | None:
        """One request; None if the run has ended before it began."""
        while not self._stop.is_set():
            if closed := self._pace.closed_for():
                await self._sleep(closed)
            async with self._pace.turn() as began:
                if not self._pace.closed_for() and self._reserved():
                    return await self._exchange(question, began)
        return None

    def _reserved(self) -> bool:
        if self._stop.is_set():
            return False
        try:
            self._budget.reserve()
        except BudgetSpentError:
            self._end(StoppedError("budget", "one more request could cost more than the budget has left"))
            return False
        return True

    async def _exchange(self, question: Question, began: float) -> Outcome:
        try:
            received = await self._post(self._body(question))
        except TransportError as error:
            self._budget.doubt() if error.doubtful else self._budget.release()
            return Outcome("fatal" if error.fatal else "retry", error.kind)
        except BaseException:
            self._budget.doubt()
            raise
        limits = {"max_wait": self._rules.max_wait, "pinned": self._pinned}
        outcome = judge_response(received.status, received.headers, received.text, now=time.time(), **limits)
        spent = self._settle(received, outcome)
        self._last_message = outcome.message or self._last_message
        if received.status in OVERLOADED:
            self._pace.overloaded(began)
        if outcome.kind == "ok":
            self._pace.good()
            self._unanswered = 0
        if outcome.kind in ("ok", "skip"):
            self._keep(question, outcome, spent)
        if outcome.kind == "skip":
            self.trouble[outcome.reason] += 1
            self._count_unanswered("skips")
        return outcome

    def _settle(self, received: Received, outcome: Outcome) -> int:
        """The cost of an exchange in micro-dollars."""
        if received.status >= 400:
            self._budget.release()
            return 0
        prices = {"input_price": self._rules.input_price, "output_price": self._rules.output_price}
        spent = cost(outcome.usage, **prices)
        expected = self._budget.estimate
        self._budget.settle(spent)
        return expected if spent is None else spent

    def _count_unanswered(self, what: str) -> None:
        self._unanswered += 1
        if self._unanswered >= self._rules.skips_in_a_row:
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.trouble.most_common(3))
            said = f"; the last said {self._last_message!r}" if self._last_message else ""
            told = f"{self._unanswered} questions in a row had no answer: {kinds}{said}"
            self._end(StoppedError(f"too_many_{what}", told))

    def _end(self, why: StoppedError) -> None:
        """Starts no more requests; those on their way are still awaited."""
        self._why = self._why or why
        self._stop.set()

    async def _pause(self, attempt: int) -> None:
        """Waits a random part of a doubling time; less if the run ends."""
        longest = min(self._rules.longest_wait, self._rules.first_wait * 2**attempt)
        await self._sleep(random.uniform(0, longest))

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
