from dataclasses import replace

import pytest
from server import completion

from ask.judges import JudgeError
from ask.judges.chat import read
from ask.judges.probe import after_answers, after_refusal
from ask.judges.request import Shape

SHAPE = Shape()
FIVE, NONE = replace(SHAPE, top_logprobs=5), replace(SHAPE, top_logprobs=0)
WRITTEN = read(completion("7", logprobs=None))
FULL = read(completion("7"))
ONE = {"token": "7", "logprob": 0.0}
HOT = read(
    completion("7", logprobs={"content": [ONE | {"top_logprobs": [ONE, {"token": "6", "logprob": -9999.0}]}]})
)
CUT = read(completion("", finish_reason="length"))


@pytest.mark.parametrize(
    ("message", "method", "better"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "expected",
            replace(SHAPE, limit="max_completion_tokens"),
        ),
        (
            "temperature does not support 0.0, only the default (1)",
            "expected",
            replace(SHAPE, temperature=1.0),
        ),
        ("top_logprobs must be at most 5", "expected", FIVE),
        ("No endpoints found that can handle the requested parameters.", "expected", FIVE),
        ("model vlm does not exist", "expected", None),
    ],
)
def test_a_refused_field_is_replaced_and_other_refusals_are_none_of_its_business(message, method, better):
    assert after_refusal(SHAPE, message, method) == better


def test_log_probabilities_are_given_up_only_where_written_digits_were_declared():
    assert after_refusal(FIVE, "logprobs are not supported", "expected") is None
    assert after_refusal(FIVE, "logprobs are not supported", "parsed") == NONE


def test_full_distributions_are_what_was_wanted():
    assert after_answers(SHAPE, [FULL, FULL, HOT], "expected") is None


def test_distributions_that_are_all_on_one_digit_are_asked_for_at_temperature_one():
    hotter = replace(SHAPE, temperature=1.0)
    assert after_answers(SHAPE, [HOT, HOT], "expected") == hotter
    assert after_answers(hotter, [HOT, HOT], "expected") is None


def test_a_written_digit_is_no_distribution():
    with pytest.raises(JudgeError, match=r"no probabilities of digits came .* `method: parsed`"):
        after_answers(SHAPE, [FULL, WRITTEN], "expected")
    assert after_answers(SHAPE, [FULL, WRITTEN], "parsed") is None


def test_a_model_that_reasons_is_told_how_to_stop():
    with pytest.raises(JudgeError, match=r"the model reasons before it answers .*enable_thinking"):
        after_answers(SHAPE, [CUT, CUT], "expected")


def test_one_garbled_answer_among_good_ones_is_no_reason_to_give_up():
    assert after_answers(SHAPE, [read(completion("perhaps")), FULL, FULL], "expected") is None
    with pytest.raises(JudgeError, match=r"no answer to the first pairs could be read .*'perhaps'"):
        after_answers(SHAPE, [read(completion("perhaps"))] * 3, "expected")
