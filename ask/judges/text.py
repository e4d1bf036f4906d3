"""From what a model wrote to the one digit it may consist of, or to the reason why there is none.

A digit counts only if it is all that was said, up to decoration, one label and the scale. Nothing is guessed:
a digit picked out of a sentence would be a score that nobody gave. In reading order: `Written`, `find_digit`,
`joined`, `after_reasoning`.
"""

import re
from dataclasses import dataclass
from typing import Any

from ask.judges import DIGITS

ENDS = ("</think>", "</thinking>", "[/THINK]", "◁/think▷", "<|channel|>final<|message|>")
BEGINS = ("<think>", "<thinking>", "[THINK]", "◁think▷", "<|channel|>analysis<|message|>")
_END = re.compile("|".join(map(re.escape, ENDS)), re.IGNORECASE)
_BEGIN = re.compile("|".join(map(re.escape, BEGINS)), re.IGNORECASE)
_LINE = re.compile(r"\r\n|\n|\r")  # str.splitlines would also cut at U+2028
_DECORATION = re.compile("[*_`~\u00ad\u200b-\u200f\u2060\ufeff]")
_AROUND = "\"'“”„‘’«»()[]{}#$|"
_LABEL = re.compile(r"(?:score|rating|answer|similarity|verdict)\s*(?:is\b|[:=])", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\s*\{\s*([^{}]*)")  # the brace behind it went as decoration
_TAGGED = re.compile(r"<([A-Za-z][\w-]*)>\s*([^<>]*?)\s*</\1>")
_ON_SCALE = re.compile(r"([0-9]+)\s*(?:/|out\s+of)\s*9", re.IGNORECASE)
_OTHER_SCALE = re.compile(r"[0-9]+(?:\.[0-9]+)?\s*(?:/|out\s+of)\s*[0-9]+", re.IGNORECASE)
_INTEGER = re.compile(r"[-+−]?[0-9]+")
_DECIMAL = re.compile(r"[-+−]?[0-9]*[.,][0-9]+")


@dataclass(frozen=True, slots=True)
class Written:
    """What an answer says.

    Attributes:
        digit: one of 1..9, or empty.
        reason: ``ok``; ``empty``, where asking again may help; else why there will be no digit: ``no_answer_length``,
            ``answer_in_reasoning``, ``out_of_range``, ``wrong_scale``, ``not_an_integer``, ``ambiguous``,
            ``unparseable``.
    """

    digit: str
    reason: str


def find_digit(
    text: str,  # the answer, reasoning included where the server left it in
    *,
    finish_reason: str | None = None,
    reasoning: str = "",  # what stands in a field of its own
) -> Written:
    """The digit that a text consists of.

    Of several lines the first or the last may carry it; two different digits are none.
    """
    answer = after_reasoning(text)
    if answer is None:
        return Written("", "no_answer_length")
    lines = [line for line in map(_bare, _LINE.split(answer)) if line]
    if not lines:
        return Written("", _why_empty(answer, finish_reason, reasoning))
    digits = {line for line in lines if _is_digit(line)}
    if len(digits) > 1:
        return Written("", "ambiguous")
    if digits & {lines[0], lines[-1]}:
        return Written(digits.pop(), "ok")
    return Written("", _why_not(lines[0]) if len(lines) == 1 else "unparseable")


def joined(
    content: Any,  # of a message: text, a list of parts, or nothing
) -> str:
    """The text of a message; parts that hold reasoning or anything else than text are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_part(part) for part in content)


def after_reasoning(text: str) -> str | None:
    """What stands behind the last end-of-reasoning mark; None if a reasoning that was begun has no end."""
    ends = [mark.end() for mark in _END.finditer(text)]
    answer = text[ends[-1] :] if ends else text
    return None if _BEGIN.search(answer) else answer


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if (
        isinstance(part, dict)
        and part.get("type") in ("text", "output_text")
        and isinstance(part.get("text"), str)
    ):
        return part["text"]
    return ""


def _bare(line: str) -> str:
    """A line without decoration, one label and the scale; a digit on the scale becomes that digit."""
    line = _stripped(_DECORATION.sub("", line))
    line = _stripped(_LABEL.sub("", line, count=1)) if _LABEL.match(line) else line
    for wrapped in (_BOXED, _TAGGED):
        if found := wrapped.fullmatch(line):
            line = _stripped(found[found.lastindex])
    on_scale = _ON_SCALE.fullmatch(line)
    return on_scale[1] if on_scale else line


def _stripped(line: str) -> str:
    """Without white space, quotes and brackets around, and without final punctuation."""
    while (shorter := line.strip().strip(_AROUND).rstrip(".!,;:")) != line:
        line = shorter
    return line


def _is_digit(line: str) -> bool:
    return len(line) == 1 and line in DIGITS


def _why_empty(answer: str, finish_reason: str | None, reasoning: str) -> str:
    if _DECORATION.sub("", answer).strip():
        return "unparseable"
    if finish_reason == "length":
        return "no_answer_length"
    return "answer_in_reasoning" if reasoning.strip() else "empty"


def _why_not(line: str) -> str:
    if _INTEGER.fullmatch(line):
        return "out_of_range"
    if _DECIMAL.fullmatch(line):
        return "not_an_integer"
    return "wrong_scale" if _OTHER_SCALE.fullmatch(line) else "unparseable"
