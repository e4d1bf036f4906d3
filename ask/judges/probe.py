"""What a server lets one ask, found out from its answers to a few pairs: the next shape to try, or why to give up.

Pure functions. In reading order: `after_refusal`, `after_answers`.
"""

from collections.abc import Sequence
from dataclasses import replace

from ask.judges import JudgeError
from ask.judges.chat import MISMATCH, Reading
from ask.judges.request import Shape


def after_refusal(
    shape: Shape,
    message: str,  # what the server said
    method: str,  # expected or parsed
) -> Shape | None:
    """The shape to try after a request was refused; None if the refusal is about something else."""
    told = message.lower()
    if "max_completion_tokens" in told and shape.limit == "max_tokens":
        return replace(shape, limit="max_completion_tokens")
    if "temperature" in told and shape.temperature != 1:
        return replace(shape, temperature=1.0)
    if "logprob" in told or "requested parameters" in told:
        fewer = shape.fewer_alternatives()
        return fewer if fewer and (fewer.top_logprobs or method == "parsed") else None
    return None


def after_answers(
    shape: Shape,
    readings: Sequence[Reading],  # of the answers to a few pairs
    method: str,
) -> Shape | None:
    """The shape to try instead; None if this one does.

    Raises:
        JudgeError: if no shape would do: nothing was answered, or not in the way that was declared.
    """
    if unread := [reading for reading in readings if reading.method == "none"]:
        if len(unread) == len(readings):
            raise JudgeError(_silent(unread[0]))
        readings = [reading for reading in readings if reading.method != "none"]
    if method == "parsed":
        return None
    if any(reading.method != "expected" for reading in readings):
        raise JudgeError(
            "no probabilities of digits came with the answer; choose a provider that sends them, or declare "
            "`method: parsed` for all of this judge's judgments"
        )
    if shape.temperature == 0 and all("degenerate" in reading.flags for reading in readings):
        return replace(shape, temperature=1.0)
    return None


def _silent(reading: Reading) -> str:
    if reading.reason in ("no_answer_length", "answer_in_reasoning"):
        return (
            f"the model reasons before it answers ({reading.reason}); switch that off in `extra`, for example "
            "{reasoning: {enabled: false}} on OpenRouter or {chat_template_kwargs: {enable_thinking: false}} on vLLM"
        )
    if reading.reason == MISMATCH:
        return (
            f"{reading.provider} answered, which is not among `providers`; write there what the endpoint calls it, "
            "or take an endpoint that keeps to them"
        )
    return f"no answer to the first pairs could be read ({reading.reason}: {reading.text[:80]!r}); look at the prompt"
