"""What a hosted judge's entry in the catalogue may say.

model        as the endpoint calls it
base_url     without /chat/completions
key          the environment variable that holds the key; null: the server wants none
method       expected (digit probabilities) or parsed (a written digit); an answer of the other kind is
             kept, counted and given no score
providers    behind OpenRouter, the only ones that may serve; an answer from another is kept, counted and
             given no score
extra        more fields of the request, the server's switch against reasoning above all
input_price, output_price
             dollars per million tokens, for servers that do not say what they took
free         true for a server that takes no money, instead of a budget
concurrency, attempts, max_wait, timeout
             how fast, how stubbornly; they change no answer
"""

from collections.abc import Mapping
from typing import Any

from ask.judges import JudgeError

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
