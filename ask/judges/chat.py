"""From the body of a chat completion to the probabilities of digits, in every shape that servers use.

A pure function of what is stored, so that a better reading never means asking again. In reading order: `Reading`,
`read`, `reply`, `read_reply`, and `trim`, which says what of a body is worth keeping.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ask.judges import DIGITS, Reply
from ask.judges.text import after_reasoning, find_digit, joined

UNLISTED = -9000.0  # log-probabilities at or below it stand for "not among the listed"
ABOVE_ONE = 0.001  # a log-probability above it is none
MARKERS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})  # white space in the raw tokens of some tokenizers
REASONING = ("reasoning_content", "reasoning", "thinking")  # fields of a message
MISMATCH = "provider_mismatch"  # set in a body whose answer is from a provider that was not asked for
QUOTED = 200  # letters of reasoning that are kept


@dataclass(frozen=True, slots=True)
class Reading:
    """What a body says about a pair.

    Attributes:
        kind: ``ok``, ``skip`` (there will be no verdict) or ``retry`` (asking again may help).
        reason: ``ok``, or why not.
        method: ``expected``, ``parsed`` or ``none``: what the score can be worked out from.
        digits: digit -> probability as returned, not renormalised; empty unless the method is ``expected``.
        flags: ``degenerate`` if all that was returned is on one digit.
    """

    kind: str
    reason: str
    method: str = "none"
    digits: dict[str, float] = field(default_factory=dict)
    text: str = ""
    provider: str = ""
    tokens: int = 0
    flags: tuple[str, ...] = ()


def read(body: Any) -> Reading:
    """Reads a parsed body; whatever it is, this does not raise."""
    choice = _choice(body)
    if choice is None:
        return Reading("retry", "no_choices")
    if choice.get("error") or choice.get("finish_reason") == "error":
        return Reading("retry", "upstream_error")
    message = _mapping(choice.get("message"))
    text = joined(message.get("content"))
    about = {"text": text, "provider": _word(body.get("provider")), "tokens": _tokens(body)}
    if message.get("refusal"):
        return Reading("skip", "refusal", **about)
    if choice.get("finish_reason") == "content_filter":
        return Reading("skip", "content_filter", **about)
    written = find_digit(text, finish_reason=choice.get("finish_reason"), reasoning=_reasoning(message))
    if not written.digit:
        return Reading("retry" if written.reason == "empty" else "skip", written.reason, **about)
    entries = _entries(choice.get("logprobs"))
    place = _place(entries, text, written.digit)
    digits = {} if place is None else _digits(entries[place][1])
    if body.get(MISMATCH):
        return Reading("skip", MISMATCH, **about)
    flags = ("degenerate",) if len(digits) == 1 and max(digits.values()) > 1 - 1e-6 else ()
    return Reading("ok", "ok", "expected" if digits else "parsed", digits, flags=flags, **about)


def reply(
    reading: Reading,
    body: Mapping[str, Any],  # trimmed
    cost: int,  # micro-dollars
) -> Reply:
    """A reading as what is kept of an answer."""
    reason = "" if reading.kind == "ok" else reading.reason
    return Reply(reading.digits, reading.text, reading.provider, reading.tokens, cost, reason, dict(body))


def read_reply(body: Mapping[str, Any], cost: int) -> Reply:
    """The reply that a stored body holds."""
    return reply(read(body), body, cost)


def trim(body: Mapping[str, Any]) -> dict[str, Any]:
    """What of a body is kept for ever: all that `read` looks at, who answered, and what it took.

    Lists of alternatives are kept at the place of the digit only. ``read(trim(body)) == read(body)``.
    """
    choice = _choice(body)
    if choice is None:
        return {}
    message = _mapping(choice.get("message"))
    text = joined(message.get("content"))
    said = {"content": text, "refusal": message.get("refusal"), "reasoning": _reasoning(message)[:QUOTED]}
    written = find_digit(text, finish_reason=choice.get("finish_reason"), reasoning=said["reasoning"])
    kept = {
        "message": {name: value for name, value in said.items() if value},
        "finish_reason": choice.get("finish_reason"),
        "native_finish_reason": choice.get("native_finish_reason"),
        "error": bool(choice.get("error")),
        "logprobs": _trimmed(_entries(choice.get("logprobs")), text, written.digit),
    }
    about = {
        name: body.get(name) for name in ("id", "provider", "model", "system_fingerprint", "usage", MISMATCH)
    }
    choices = [{name: value for name, value in kept.items() if value}]
    return {"choices": choices} | {name: value for name, value in about.items() if value}


Entry = tuple[str, list[tuple[str, Any]]]  # a token that was written, and the listed (token, log-probability)


def _entries(logprobs: Any) -> list[Entry]:
    """One entry per token of the answer, from any shape."""
    listed = logprobs if isinstance(logprobs, list) else _mapping(logprobs).get("content")
    if isinstance(listed, list):
        told = [_mapping(entry) for entry in listed]
        return [(_word(entry.get("token")), _alternatives(entry.get("top_logprobs"))) for entry in told]
    flat = _mapping(logprobs)
    tokens, tops = flat.get("tokens"), flat.get("top_logprobs")
    if not isinstance(tokens, list):
        return []
    tops = tops if isinstance(tops, list) and len(tops) == len(tokens) else [None] * len(tokens)
    return [(_word(token), _alternatives(top)) for token, top in zip(tokens, tops, strict=True)]


def _alternatives(top: Any) -> list[tuple[str, Any]]:
    if isinstance(top, dict):
        return [(token, value) for token, value in top.items()]
    told = map(_mapping, top if isinstance(top, list) else [])
    return [(_word(one.get("token")), one.get("logprob")) for one in told]


def _place(entries: list[Entry], text: str, digit: str) -> int | None:
    """Which token carries the digit of the answer.

    The answer is sought from the end, because some servers list the tokens of a reasoning that they took out
    of the text. Where it is not found as it stands, the last token that is the digit is taken.
    """
    answer = (after_reasoning(text) or "").strip()
    tokens = ["" if _special(token) else token.translate(MARKERS) for token, _ in entries]
    start = "".join(tokens).rfind(answer)
    if not digit or not answer:
        return None
    if start >= 0:
        aim, end = start + answer.index(digit), 0
        for place, token in enumerate(tokens):
            end += len(token)
            if end > aim:
                return place
    same = [place for place, token in enumerate(tokens) if token.strip() == digit]
    return same[-1] if same else None


def _special(token: str) -> bool:
    return len(token) > 2 and token[0] == "<" and token[-1] == ">"


def _digits(alternatives: list[tuple[str, Any]]) -> dict[str, float]:
    """Probabilities of the rating digits in a list; the same digit in several tokens adds up."""
    digits: dict[str, float] = {}
    for token, value in alternatives:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            continue
        if value > ABOVE_ONE:
            return {}
        bare = token.translate(MARKERS).strip()
        if len(bare) == 1 and bare in DIGITS and value > UNLISTED:
            digits[bare] = digits.get(bare, 0.0) + math.exp(min(value, 0.0))
    return {digit: p for digit, p in digits.items() if p > 0}


def _trimmed(entries: list[Entry], text: str, digit: str) -> dict[str, Any] | None:
    place = _place(entries, text, digit)
    if place is None:
        return None
    kept = []
    for number, (token, alternatives) in enumerate(entries):
        listed = [{"token": name, "logprob": _plain(value)} for name, value in alternatives]
        kept.append({"token": token} | ({"top_logprobs": listed} if number == place else {}))
    return {"content": kept}


def _plain(value: Any) -> float | int | None:
    """A log-probability that JSON can carry; what counts as nothing becomes null."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and UNLISTED < value < math.inf else (1.0 if number and value > 0 else None)


def _choice(body: Any) -> dict[str, Any] | None:
    choices = _mapping(body).get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _reasoning(message: Mapping[str, Any]) -> str:
    return next((text for name in REASONING if (text := joined(message.get(name)).strip())), "")


def _tokens(body: Mapping[str, Any]) -> int:
    counts = [_mapping(body.get("usage")).get(name) for name in ("prompt_tokens", "completion_tokens")]
    return sum(
        count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count > 0
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
