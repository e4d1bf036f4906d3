"""A judge behind an endpoint that speaks OpenAI's chat completions: OpenRouter, vLLM, SGLang, a proxy, a vendor.

    model        as the endpoint calls it
    base_url     without /chat/completions
    key          the environment variable that holds the key; null: the server wants none
    method       expected (digit probabilities) or parsed (a written digit); an answer of the other kind is
                 kept, counted and given no score
    providers    on OpenRouter: the only ones that may serve
    extra        more fields of the request, the server's switch against reasoning above all
    input_price, output_price
                 dollars per million tokens, for servers that do not say what they took
    free         true for a server that takes no money, instead of a budget
    concurrency, attempts, max_wait, timeout
                 how fast, how stubbornly; they change no answer

What of a request the server accepts is probed once with three pairs, kept in the identity, and never varied
again. In reading order: `Hosted`, `settings`.
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
from ask.judges.outcome import Outcome
from ask.judges.probe import after_answers, after_refusal
from ask.judges.request import Shape, provider_pin, request_body
from ask.judges.transport import Timeouts, Transport, host

T = TypeVar("T")
PROBED = 3  # pairs
GRACE = 1.0  # seconds that answers on their way get when a person interrupts
INPUT_TOKENS = 700  # the upper end of what a pair takes; ASK, Table 15
METHODS = ("expected", "parsed")
REQUIRED = ("model", "base_url")
SECRETS = ("api_key", "key", "authorization", "headers")
DEFAULTS = {
    "key": "OPENROUTER_API_KEY",
    "method": "expected",
    "providers": [],
    "extra": {},
    "seed": None,
    "input_price": None,
    "output_price": None,
    "free": False,
    "concurrency": 10,
    "attempts": 6,
    "max_wait": 300.0,
    "timeout": 120.0,
    "preparation": {},
}
KINDS = {
    "providers": (list,),
    "extra": (dict,),
    "preparation": (dict,),
    "seed": (int,),
    "concurrency": (int,),
    "attempts": (int,),
    "max_wait": (int, float),
    "timeout": (int, float),
    "input_price": (int, float),
    "output_price": (int, float),
}


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
            transport.post, self._body, keep, rules=Rules(**told), budget=self._money, trouble=self.trouble
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
            extra=self._settings["extra"] | provider_pin(self._base["host"], self._settings["providers"]),
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


def settings(
    name: str,
    entry: Mapping[str, Any],
) -> dict[str, Any]:
    """A hosted judge's entry with every default filled in.

    Raises:
        JudgeError: for a setting that is unknown, missing, or of the wrong kind.
    """
    told = {key: value for key, value in entry.items() if key != "kind"}
    if unknown := sorted(set(told) - set(DEFAULTS) - set(REQUIRED)):
        known = ", ".join([*REQUIRED, *DEFAULTS])
        raise JudgeError(f"judge {name} has no setting {unknown[0]!r}; a hosted judge knows {known}")
    if missing := [key for key in REQUIRED if not told.get(key)]:
        raise JudgeError(f"judge {name} needs {missing[0]} in its entry")
    filled = DEFAULTS | told
    if filled["method"] not in METHODS:
        raise JudgeError(f"judge {name}: method must be expected or parsed, but is {filled['method']!r}")
    if not filled["free"] and None in (filled["input_price"], filled["output_price"]):
        raise JudgeError(
            f"judge {name} needs input_price and output_price, dollars per million tokens, so that money can be "
            "counted, or `free: true`"
        )
    if secret := [key for key in filled["extra"] or {} if key.lower() in SECRETS]:
        raise JudgeError(
            f"judge {name} has {secret[0]} in extra, which is stored with every answer; put it into the environment "
            "and name the variable as key"
        )
    for key, kind in KINDS.items():
        if filled[key] is not None and (not isinstance(filled[key], kind) or isinstance(filled[key], bool)):
            raise JudgeError(f"judge {name}: {key} must be a {kind[-1].__name__}, but is {filled[key]!r}")
    return filled
