"""The body of a chat-completion request: the criterion first, then the two pictures, and a single digit asked for.

What of it a server accepts is found out once, by a probe, and then never varied: see `Shape`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True)
class Shape:
    """The fields of a request that servers differ on; part of a judge's identity."""

    top_logprobs: int = 20  # alternatives wanted at each position; 0 asks for no log-probabilities
    temperature: float = 0.0
    limit: str = "max_tokens"  # or max_completion_tokens: the field that bounds an answer
    max_tokens: int = 4

    def fewer_alternatives(self) -> Self | None:
        """What to try where so many log-probabilities are refused; None after the last."""
        smaller = {20: 5, 5: 0}.get(self.top_logprobs)
        return None if smaller is None else replace(self, top_logprobs=smaller)


def request_body(
    shape: Shape,
    *,
    model: str,
    prompt: str,
    pictures: tuple[str, str],  # data URLs, in the order shown
    seed: int | None,
    extra: Mapping[
        str, Any
    ],  # what this server needs besides: its switch against reasoning, its provider pin
) -> bytes:
    """One request as JSON.

    With temperature 1 and top_p 1 every server means the same by a log-probability; at 0 some return what the
    sampler left, which is all on one digit.
    """
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}, *shown]}],
        "stream": False,
        "n": 1,
        "temperature": shape.temperature,
        "top_p": 1,
        shape.limit: shape.max_tokens,
        **({"seed": seed} if seed is not None else {}),
        **({"logprobs": True, "top_logprobs": shape.top_logprobs} if shape.top_logprobs else {}),
        **extra,
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def provider_pin(providers: Sequence[str]) -> dict[str, Any]:
    """The field by which OpenRouter is kept to some providers, and to parameters that these know."""
    if not providers:
        return {}
    return {"provider": {"order": list(providers), "allow_fallbacks": False, "require_parameters": True}}


def serves(
    provider: str,  # as an answer names who gave it: "Google", "Together AI"
    pinned: Sequence[str],  # as a request names them: "google-vertex", "together/fp8"
) -> bool:
    """Whether an answer is from where it was asked for; one that names nobody is taken for that."""
    name = _letters(provider)
    asked = [_letters(one.partition("/")[0]) for one in pinned]
    return not name or not asked or any(name.startswith(one) or one.startswith(name) for one in asked)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
