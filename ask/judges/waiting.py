"""How long a server wants one to wait before the next request."""

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

MILLISECONDS = 1e11  # an epoch time above it is in milliseconds
EPOCH = 1e9  # a reset time below it is a number of seconds from now
UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+")
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def asked_wait(
    headers: Mapping[str, str],  # names in any case
    *,
    now: float,  # seconds since the epoch
) -> float | None:
    """Seconds that ``retry-after-ms`` or ``Retry-After`` ask for; None if neither says anything."""
    told = {name.lower(): value for name, value in headers.items()}
    milliseconds = _number(told.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    seconds = _seconds(told.get("retry-after"), now)
    return None if seconds is None else max(0.0, seconds)


def wait(
    headers: Mapping[str, str],
    body: Any,  # parsed; routers put the upstream's headers into error.metadata.headers
    *,
    now: float,
) -> float | None:
    """Seconds to wait, never negative; None where the server gave no hint.

    First what is asked for outright, then the reset of the dimension that is used up (of all dimensions the
    longest, if none says so), then the reset time of the whole limit, in the headers or in the body.
    """
    asked = asked_wait(headers, now=now)
    if asked is not None:
        return asked
    for told in (headers, _inner_headers(body)):
        told = {str(name).lower(): value for name, value in told.items()}
        for found in (_of_dimensions(told), _until(told.get("x-ratelimit-reset"), now)):
            if found is not None:
                return max(0.0, found)
    return asked_wait(_inner_headers(body), now=now)


def _of_dimensions(told: Mapping[str, Any]) -> float | None:
    resets = {name: _duration(told.get(f"x-ratelimit-reset-{name}")) for name in ("requests", "tokens")}
    resets = {name: seconds for name, seconds in resets.items() if seconds is not None}
    used_up = [resets[name] for name in resets if _number(told.get(f"x-ratelimit-remaining-{name}")) == 0]
    return max(used_up or resets.values(), default=None)


def _until(value: Any, now: float) -> float | None:
    moment = _number(value)
    if moment is None:
        return _duration(value)
    if moment < EPOCH:
        return moment
    return (moment / 1000 if moment > MILLISECONDS else moment) - now


def _seconds(value: Any, now: float) -> float | None:
    found = _duration(value)
    if found is not None:
        return found
    try:
        date = parsedate_to_datetime(str(value))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now


def _duration(value: Any) -> float | None:
    """Seconds of ``12``, ``1.5``, ``12s``, ``250ms`` or ``1h2m3s``."""
    number = _number(value)
    if number is not None:
        return number
    text = str(value).strip().lower().replace(" ", "")
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(count) * UNITS[unit] for count, unit in _PIECE.findall(text))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _inner_headers(body: Any) -> Mapping[str, Any]:
    for name in ("error", "metadata", "headers"):
        body = body.get(name) if isinstance(body, dict) else None
    return body if isinstance(body, dict) else {}
