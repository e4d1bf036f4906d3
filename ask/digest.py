"""One text and one hash for a value made of JSON's kinds, whatever the order of its keys."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """The value as JSON without spaces, keys sorted.

    Raises:
        ValueError: for nan and infinities, which JSON has not.
    """
    return _ENCODER.encode(value)


def sha256(value: Any) -> str:
    """Hex digits of the hash of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
