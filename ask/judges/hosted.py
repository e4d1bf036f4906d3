"""A judge behind an endpoint that speaks OpenAI's chat completions: OpenRouter, vLLM, SGLang, a proxy, a vendor.

Its entry in the catalogue is described in ``entry``. What of a request the server accepts is probed once with three
pairs, kept in the identity, and never varied again.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

from ask.datasets.pictures import Pictures
from ask.journal import Journal, identities
from ask.judges import JudgeError, Keep, Pair, Reply
from ask.judges.apart import run_apart
from ask.judges.asking import Asking, Rules, StoppedError
from ask.judges.budget import Budget
from ask.judges.chat import Reading, read, reply
from ask.judges.encoding import EncodedPictures, Preparation
from ask.judges.entry import settings
from ask.judges.outcome import Outcome
from ask.judges.probe import after_answers, after_refusal
from ask.judges.request import Shape, provider_pin, request_body
from ask.judges.transport import Timeouts, Transport, host

T = TypeVar("T")
PROBED = 3  # pairs
GRACE = 1.0  # seconds that answers on their way get when a person interrupts
INPUT_TOKENS = 700  # the upper end of what a pair takes; ASK, Table 15


class Hosted:
    """A judge on the other side of a network.

    Raises:
        JudgeError: for a setting that is unknown, missing, or does not fit.
    """

    def __init__(
        self,
        name: str,
        entry: Mapping[str, Any],  # see the module
        criterion: str,
        prompt: str,
        pictures: Pictures,
        paths: Sequence[str],  # path of each row of the manifest
        *,
        store: Path,
        published: Path | None = None,
        budget: float = 0.0,  # dollars for this judge and criterion, what is stored included
    ):
        self._settings = settings(name, entry)
        self._store, self._budget = store, budget
        self.concurrency = self._settings["concurrency"]
        self.trouble: Counter[str] = Counter()
        self.doubtful = 0
        preparation = Preparation(**self._settings["preparation"])
        self._pictures = EncodedPictures(pictures, paths, preparation)
        self._base = {
            "kind": "hosted",
            "name": name,
            "criterion": criterion,
            "host": host(self._settings["base_url"]),
            "model": self._settings["model"],
            "providers": self._settings["providers"],
            "extra": self._settings["extra"],
            "seed": self._settings["seed"],
            "method": self._settings["method"],
            "prompt": prompt,
            "layout": "text, first picture, second picture",
            "preparation": asdict(preparation),
        }
        known = identities(store, published, name=name, criterion=criterion)
        frozen = [one for one in known if one == self._base | {"request": one.get("request")}]
        self.identity = frozen[0] if frozen else self._base

    def settle(self, pairs: Sequence[Pair]) -> None:
        """Checks pictures, money and key, then probes what the server accepts, unless that is known.

        Raises:
            PictureError: if a picture of any pair cannot be sent; nothing was asked then.
            JudgeError: if there is no budget or key, or no way to ask this server as was declared.
        """
        self._pictures.check({row for pair in pairs for row in (pair.first_row, pair.second_row)})
        self._need_budget(len(pairs))
        if "request" in self.identity:
            return
        shape = self._run(self._probe(pairs[:PROBED]))
        self.identity = self._base | {"request": asdict(shape)}
        probed = Journal(self._store, self._probing(shape)).read()
        with Journal(self._store, self.identity) as journal:
            for pair in pairs[:PROBED]:
                journal.append([pair], [probed[pair.first, pair.second]])

    def ask(self, pairs: Sequence[Pair], keep: Keep) -> None:
        """Asks about all pairs, some at a time; those that no attempt answered are left out and counted.

        Raises:
            JudgeError: if the run had to end early: no money left, a refused key, a wait of hours.
        """
        shape = Shape(**self.identity["request"])
        self._run(self._all(((pair, shape) for pair in pairs), keep))

    async def _all(self, questions: Iterable[tuple[Pair, Shape]], keep: Keep) -> None:
        async with self._transport() as transport:
            await self._asking(transport, lambda pair, answer: keep([pair], [answer])).run(questions)

    async def _probe(self, pairs: Sequence[Pair]) -> Shape:
        method = self._settings["method"]
        shape = Shape() if method == "expected" else Shape(top_logprobs=0)
        async with self._transport() as transport:
            while True:
                try:
                    better = after_answers(shape, await self._readings(transport, pairs, shape), method)
                except StoppedError as refused:
                    if (better := after_refusal(shape, str(refused), method)) is None:
                        raise
                if better is None:
                    return shape
                shape = better

    async def _readings(self, transport: Transport, pairs: Sequence[Pair], shape: Shape) -> list[Reading]:
        with Journal(self._store, self._probing(shape)) as journal:
            asking = self._asking(transport, lambda pair, answer: journal.append([pair], [answer]))
            known = journal.read()
            for pair in pairs:
                if (pair.first, pair.second) not in known:
                    await asking.once((pair, shape))
            answers = journal.read()
        if not all((pair.first, pair.second) in answers for pair in pairs):
            raise StoppedError(
                "no_answer", "the first pairs were not answered, however often they were asked"
            )
        return [read(answers[pair.first, pair.second].body or {}) for pair in pairs]

    def _asking(
        self, transport: Transport, keep_one: Callable[[Pair, Reply], None]
    ) -> Asking[tuple[Pair, Shape]]:
        def keep(question: tuple[Pair, Shape], outcome: Outcome, cost: int) -> None:
            keep_one(question[0], _reply(outcome, cost))

        names = {field.name for field in fields(Rules)}
        told = {name: value for name, value in self._settings.items() if name in names and value is not None}
        self._current = Asking(
            transport.post,
            self._body,
            keep,
            rules=Rules(**told),
            budget=self._money,
            trouble=self.trouble,
            pinned=self._settings["providers"],
        )
        return self._current

    def _body(self, question: tuple[Pair, Shape]) -> bytes:
        pair, shape = question
        return request_body(
            shape,
            model=self._settings["model"],
            prompt=self._base["prompt"],
            pictures=(self._pictures.url(pair.first_row), self._pictures.url(pair.second_row)),
            seed=self._settings["seed"],
            extra=self._settings["extra"] | provider_pin(self._settings["providers"]),
        )

    def _run(self, main: Coroutine[Any, Any, T]) -> T:
        self._money, self._current = self._purse(), None
        try:
            return run_apart(main, interrupt=self._interrupt, grace=GRACE)
        except StoppedError as stopped:
            raise JudgeError(self._told(stopped)) from None
        finally:
            self.doubtful += self._money.doubtful

    def _interrupt(self) -> None:
        if self._current:
            self._current.interrupt()

    def _told(self, stopped: StoppedError) -> str:
        later = f"; run again in {stopped.wait / 60:.0f} minutes" if stopped.wait else ""
        return (
            f"judge {self._base['name']} stopped asking ({stopped.reason}: {stopped}){later}; "
            "what was answered is stored"
        )

    def _transport(self) -> Transport:
        timeouts = Timeouts(read=self._settings["timeout"])
        return Transport(self._settings["base_url"], self._settings["key"], self.concurrency, timeouts)

    def _probing(self, shape: Shape) -> dict[str, Any]:
        """The identity under which a probe's answers are stored until it is over."""
        return self._base | {"probe": asdict(shape)}

    def _need_budget(self, pairs: int) -> None:
        if self._settings["free"] or self._budget > 0:
            return
        dollars = pairs * self._first_estimate() / 1e6
        raise JudgeError(
            f"judge {self._base['name']} takes money, about ${dollars:.2f} for {pairs} pairs; set elicitation.budget "
            "to the dollars that it may take for this criterion, or `free: true` in its entry if it takes none"
        )

    def _purse(self) -> Budget:
        if self._settings["free"]:
            return Budget(None, 0)
        stored = Journal(self._store, self.identity).read().values()
        spent = sum(reply.cost for reply in stored)
        return Budget(round(self._budget * 1e6), self._first_estimate(), spent=spent)

    def _first_estimate(self) -> int:
        """Micro-dollars for one pair, on the high side."""
        tokens = INPUT_TOKENS, Shape().max_tokens
        prices = self._settings["input_price"], self._settings["output_price"]
        return ceil(sum(count * price for count, price in zip(tokens, prices, strict=True)))


def _reply(outcome: Outcome, cost: int) -> Reply:
    if outcome.reading is None:
        return Reply({}, "", "", cost=cost, reason=outcome.reason)
    return reply(outcome.reading, outcome.body or {}, cost)
