import cases
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.judges.text import BEGINS, ENDS, after_reasoning, find_digit, joined


@cases.each("parse")
def test_answers_from_practice(case):
    payload = case["payload"]
    written = find_digit(payload["content"], finish_reason=payload["finish_reason"])
    outcome = "ok" if written.digit else "retry" if written.reason == "empty" else "skip"
    found = {"score": float(written.digit or "nan"), "method": "parsed"}
    assert cases.fits(case, outcome=outcome, **found) and written.reason == case["expected"]["reason"]


@pytest.mark.parametrize(
    "text",
    [
        "4",
        " 4\n",
        "4.",
        "4!",
        "**4**",
        "`4`",
        '"4"',
        "(4)",
        "[4]",
        "{4}",
        "# 4",
        "$4$",
        "| 4 |",
        "_4_",
        "~4~",
        "Score: 4",
        "score is 4",
        "Rating = 4",
        "Answer: **4**",
        "similarity: 4.",
        "VERDICT: (4)",
        "**Score:** 4",
        "4/9",
        "4 / 9",
        "4 out of 9",
        "Score: 4/9",
        "Rating: 4 out of 9.",
        r"\boxed{4}",
        r"$\boxed{4}$",
        "<score>4</score>",
        "<answer> 4 </answer>",
        "4\n\nBoth are dogs.",
        "Both are dogs.\n\n4",
        "4\r\n4",
        "\u200b4",
        "<think>7 or 8?</think>4",
        "<THINK>7</THINK>\n4",
        "<thinking>9</thinking> 4",
        "[THINK]9[/THINK]4",
        "◁think▷9◁/think▷4",
        "<|channel|>analysis<|message|>9<|channel|>final<|message|>4",
        "9</think>4",
        "<think>a</think>1<think>b</think>4",
        "```\n4\n```",
    ],
)
def test_an_answer_that_is_one_digit_is_that_digit(text):
    assert find_digit(text).digit == "4"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0", "out_of_range"),
        ("12", "out_of_range"),
        ("-3", "out_of_range"),
        ("04", "out_of_range"),
        ("4.5", "not_an_integer"),
        ("4,5", "not_an_integer"),
        ("4/10", "wrong_scale"),
        ("3 out of 5", "wrong_scale"),
        ("8/100", "wrong_scale"),
        ("12/9", "out_of_range"),
        ("3\n5", "ambiguous"),
        ("5\nbecause\n6", "ambiguous"),
        ("four", "unparseable"),
        ("IV", "unparseable"),
        ("４", "unparseable"),
        ("²", "unparseable"),
        ("④", "unparseable"),
        ("४", "unparseable"),
        ("3-4", "unparseable"),
        ("3 or 4", "unparseable"),
        ("40%", "unparseable"),
        ("4 4", "unparseable"),
        ("I see 2 dogs. 4", "unparseable"),
        ("Score (1-9): 4", "unparseable"),
        ("N/A", "unparseable"),
        ("4th", "unparseable"),
        ("score: score: 4", "unparseable"),
        ("dogs\n4\ncats", "unparseable"),
        ("...", "unparseable"),
        ("**", "empty"),
        ("", "empty"),
        (" \n\t", "empty"),
        ("\u200b", "empty"),
        ("<think>4</think>", "empty"),
        ("<think>4", "no_answer_length"),
        ("<think>a</think>4<think>b", "no_answer_length"),
        ("4 [THINK]", "no_answer_length"),
        ("4\u2028", "ok"),
        ("a\u20284", "unparseable"),
    ],
)
def test_nothing_is_guessed_and_the_reason_is_told(text, reason):
    written = find_digit(text)
    assert written.reason == reason and bool(written.digit) == (reason == "ok")


def test_an_empty_answer_is_final_if_it_was_cut_or_stands_elsewhere():
    assert find_digit("", finish_reason="length").reason == "no_answer_length"
    assert find_digit("", finish_reason="stop", reasoning="7").reason == "answer_in_reasoning"
    assert find_digit("", finish_reason="stop", reasoning=" \n").reason == "empty"


def test_the_text_parts_of_a_list_are_joined_and_thoughts_left_out():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "8"}]}
    assert joined([thought, {"type": "text", "text": "Score: "}, {"type": "text", "text": "4"}]) == "Score: 4"
    assert joined(["4", {"type": "reasoning", "text": "8"}, {"type": "text", "text": None}, 5, None]) == "4"
    assert joined(None) == joined(4) == joined({"text": "4"}) == ""


@given(st.text())
def test_any_text_is_a_digit_or_has_a_reason(text):
    written = find_digit(text)
    assert (written.digit in set("123456789")) == (written.reason == "ok")


@given(st.text(), st.sampled_from(ENDS), st.sampled_from("123456789"))
def test_whatever_was_thought_does_not_count(thought, end, digit):
    assert find_digit(f"{thought}{end}{digit}").digit == digit


@given(st.text(), st.sampled_from(BEGINS))
def test_a_thought_without_end_leaves_no_answer(text, begin):
    answer = after_reasoning(text + begin + "7")
    assert answer is None
