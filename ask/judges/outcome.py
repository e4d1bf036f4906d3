"""What to do after an answer of whatever kind: keep it, ask again, leave the pair out, or stop the run.

    ok      there is a verdict
    retry   the same request may do better, after a while
    skip    this pair will get no verdict; the run goes on
    fatal   going on is useless or dear; everything received so far is kept

An error inside a 2xx answer is judged by its code as if that were the status. In reading order: `Outcome`,
`judge_response`, `cost`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from ask.judges.chat import MISMATCH, Reading, read, trim
from ask.judges.request import serves
from ask.judges.waiting import asked_wait, wait

RETRIED = frozenset({408, 409, 425, 429})
CROWDED = frozenset({402, 429, 503, 529})  # whose rate-limit headers say when to come back
ABOUT_PICTURES = frozenset({400, 413, 415, 500})
TOLD = 300  # letters of a server's message that are passed on

_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
_FLAGGED = re.compile(
    r"flagged|moderation|content.?polic|content.?filter|responsibleai|safety", re.IGNORECASE
)
_TOO_MANY = re.compile(
    r"(?:at most|only|maximum|max|up to|more than|limit\w*|single|too many|one|multiple|multi)\b\W*(?:\w+\W+){0,4}?"
    r"(?:images?|pictures?)\b.*(?:per|prompt|request|message|support|allow|accept|provided|got|max|limit|>)"
    r"|too many (?:images?|pictures?)|multi.?image|\bonly (?:1|one|a single) (?:image|picture)",
    re.IGNORECASE | re.DOTALL,
)
_BLIND = re.compile(
    r"(?:not|n't|no)\b.{0,40}\b(?:vision|multi-?modal|image input|images? inputs?|mmproj)|mmproj|text.only"
    r"|(?:image|vision)\w*(?: input\w*)? (?:is|are) not supported|does not support images?\b",
    re.IGNORECASE,
)
_PICTURE = re.compile(
    r"\b(?:images?|pictures?|photos?|media)\b.*(?:decod|process|read|load|identif|open|format|type|mime|invalid|corrupt|"
    r"truncat|broken|dimension|pixel|size|side|large|small|exceed|resolution|aspect|ratio|width|height)"
    r"|(?:decod|process|read|load|identif|open|invalid|corrupt|truncat|broken|unsupported).*"
    r"\b(?:images?|pictures?|photos?|media type)\b"
    r"|larger than factor|aspect ratio|media.?type",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do, and why.

    Attributes:
        wait: seconds that the server wants; None where it gave no hint.
        message: what the server said, for a person.
        reading, body: of an answer that is kept; the body is trimmed.
        usage: the server's own count of what an exchange took.
    """

    kind: str
    reason: str
    wait: float | None = None
    message: str = ""
    reading: Reading | None = None
    body: dict[str, Any] | None = None
    usage: Any = None


def judge_response(
    status: int,
    headers: Mapping[str, str],
    text: str,  # of the answer, whatever it is
    *,
    now: float,  # seconds since the epoch
    max_wait: float,  # seconds; a longer wait is no pause any more
    pinned: Sequence[str] = (),  # the only providers whose answers count; all if none is named
) -> Outcome:
    """What to do after a whole answer was received; never raises."""
    body = _parsed(text)
    if 200 <= status < 300:
        if not isinstance(body, dict):
            return Outcome("retry", "bad_body")
        if not body.get("error"):
            return _judge_completion(body, pinned)
        status = _code(body)
        if status is None:
            outcome = Outcome("retry", "upstream_error", message=_message(body))
            return _paced(outcome, wait(headers, body, now=now), max_wait)
    outcome = _judge_error(status, body, waits=asked_wait(headers, now=now) is not None)
    if outcome.kind != "retry":
        return outcome
    seconds = wait(headers, body, now=now) if status in CROWDED else asked_wait(headers, now=now)
    return _paced(outcome, seconds, max_wait)


def cost(
    usage: Any,  # of a body
    *,
    input_price: float,  # dollars per million tokens
    output_price: float,
    cached_price: float | None = None,  # of input tokens that the server had cached; like others if not given
) -> int | None:
    """Micro-dollars of an exchange, rounded up; None where nobody says.

    What the server charged, an upstream's own bill included; else its tokens at the prices given.
    """
    told = usage if isinstance(usage, dict) else {}
    charged = _money(told.get("cost"))
    if charged is not None:
        upstream = told.get("cost_details") if isinstance(told.get("cost_details"), dict) else {}
        return _ceiling((charged + (_money(upstream.get("upstream_inference_cost")) or 0)) * 1_000_000)
    counts = [_money(told.get(name)) for name in ("prompt_tokens", "completion_tokens")]
    if None in counts:
        return None
    details = told.get("prompt_tokens_details")
    cached = _money(details.get("cached_tokens") if isinstance(details, dict) else None) or Decimal(0)
    cached = min(cached, counts[0])
    cheap = input_price if cached_price is None else cached_price
    prices = [Decimal(str(price)) for price in (input_price, cheap, output_price)]
    return _ceiling((counts[0] - cached) * prices[0] + cached * prices[1] + counts[1] * prices[2])


def _judge_completion(body: dict[str, Any], pinned: Sequence[str]) -> Outcome:
    if not serves(str(body.get("provider") or ""), pinned):
        body = body | {MISMATCH: True}
    reading = read(body)
    kept = trim(body) if reading.kind != "retry" else None
    usage = body.get("usage")
    return Outcome(reading.kind, reading.reason, reading=reading, body=kept, usage=usage)


def _judge_error(status: int, body: Any, *, waits: bool) -> Outcome:
    """By status and message; ``waits`` says whether the server asked outright to come back."""
    message, everything = _message(body), json.dumps(body) if body is not None else ""
    if _TOO_MANY.search(message):
        return Outcome("fatal", "multi_image_disabled", message=message)
    if _BLIND.search(message):
        return Outcome("fatal", "no_vision", message=message)
    if status == 429 and _QUOTA.search(everything):
        return Outcome("fatal", "quota", message=message)
    if status in (400, 403) and _FLAGGED.search(everything):
        return Outcome("skip", "content_filter" if status == 400 else "moderation", message=message)
    if status == 413 or (status in ABOUT_PICTURES and _PICTURE.search(message)):
        return Outcome("skip", "bad_image", message=message)
    if status == 429:
        return Outcome("retry", "rate_limit", message=message)
    if status in RETRIED or status >= 500 or (status == 402 and waits):
        return Outcome("retry", "transient", message=message)
    reason = {401: "auth", 402: "credits", 403: "auth"}.get(status, "bad_request")
    return Outcome("fatal", reason, message=message or f"status {status}")


def _paced(outcome: Outcome, seconds: float | None, max_wait: float) -> Outcome:
    if seconds is not None and seconds > max_wait:
        return Outcome("fatal", "wait_too_long", seconds, outcome.message)
    return Outcome(outcome.kind, outcome.reason, seconds, outcome.message)


def _parsed(text: str) -> Any:
    """The body as JSON; some routers send white space before it to keep a connection open."""
    try:
        return json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _code(body: Mapping[str, Any]) -> int | None:
    """The status that an error in a 2xx answer stands for."""
    error = body["error"]
    code = error.get("code") if isinstance(error, dict) else None
    text = str(code).strip()
    return int(text) if text.isascii() and text.isdigit() and 400 <= int(text) < 600 else None


def _message(body: Any) -> str:
    """What an error says, wherever it says it, an upstream's own words included."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    inner = error if isinstance(error, dict) else {"message": error}
    metadata = inner.get("metadata") if isinstance(inner.get("metadata"), dict) else {}
    told = [inner.get("message"), metadata.get("raw"), body.get("message"), body.get("detail")]
    return " ".join(one if isinstance(one, str) else json.dumps(one) for one in told if one)[:TOLD]


def _money(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def _ceiling(micro_dollars: Decimal) -> int:
    return int(micro_dollars.to_integral_value(rounding=ROUND_CEILING))
