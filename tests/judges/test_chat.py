import json
import math

import cases
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server import completion

from ask.judges import Reply
from ask.judges.chat import read, read_reply, trim
from ask.judges.verdict import verdicts


def entry(token, alternatives=None, logprob=-0.5):
    listed = [{"token": name, "logprob": value} for name, value in (alternatives or {}).items()]
    return {"token": token, "logprob": logprob, "top_logprobs": listed}


def answered(text, *entries, **changes):
    return completion(text, logprobs={"content": list(entries)}, **changes)


def probability(**logprobs):
    return {digit.removeprefix("d"): math.exp(value) for digit, value in logprobs.items()}


def score(body):
    columns = [[read(body).digits.get(str(v), math.nan) for v in range(1, 10)]]
    import numpy as np

    return verdicts(np.array(columns), [read(body).text])["score"].item()


COMPLETE = [case for case in cases.CASES if case["kind"] == "response" and "body" in case["payload"]]


@pytest.mark.parametrize("case", COMPLETE, ids=[case["id"] for case in COMPLETE])
def test_bodies_from_practice(case):
    body = case["payload"]["body"]
    if body.get("error"):
        pytest.skip("an error in place of an answer is judged by `outcome`")
    reading = read(body)
    found = {"outcome": reading.kind}
    if reading.kind == "ok":
        mass = sum(reading.digits.values())
        found |= {"method": reading.method, "score": score(body), "digit_mass": mass}
    assert cases.fits(case, **found)
    assert set(case["expected"].get("flags", ())) <= set(reading.flags)
    assert reading.kind == "retry" or read(trim(body)) == reading


def test_the_same_digit_in_several_tokens_adds_up():
    told = {"7": -2.0, " 7": -2.0, "Ġ7": -2.0, "▁7": -2.0, "7\n": -2.0, "Ċ7": -2.0}
    assert read(answered("7", entry("7", told))).digits == {"7": pytest.approx(6 * math.exp(-2))}


def test_what_only_contains_a_digit_is_none():
    told = {
        "7": -1.0,
        "17": -0.1,
        "7.": -0.1,
        "７": -0.1,
        "²": -0.1,
        "0": -0.1,
        "": -0.1,
        "7a": -0.1,
        "<7>": -0.1,
    }
    assert read(answered("7", entry("7", told))).digits == probability(d7=-1.0)


@pytest.mark.parametrize("nothing", [-9999.0, -9000, -3.4e38, -math.inf, math.nan, None, "x", True])
def test_a_value_that_stands_for_nothing_counts_nothing(nothing):
    reading = read(answered("7", entry("7", {"7": -1.0, "6": nothing})))
    assert reading.digits == probability(d7=-1.0)


@pytest.mark.parametrize("impossible", [0.002, 1, 87.5, math.inf])
def test_a_list_with_a_probability_above_one_is_not_used(impossible):
    reading = read(answered("7", entry("7", {"7": -1.0, "The": impossible})))
    assert (reading.method, reading.digits) == ("parsed", {})
    assert read(answered("7", entry("7", {"7": 0.0005, "6": -9.0}))).method == "expected"


def test_there_is_no_floor_under_the_probability_of_digits():
    reading = read(answered("7", entry("7", {"The": -0.0001, "7": -30.0, "6": -31.0})))
    assert reading.method == "expected" and sum(reading.digits.values()) < 1e-12


def test_the_place_is_the_answers_and_not_the_first_with_digits():
    first = entry("\n", {"3": -0.1})
    assert read(answered("\n7", first, entry("7", {"7": -1.0}))).digits == probability(d7=-1.0)
    label = [entry("Score", {"2": -0.1}), entry(":"), entry(" 7", {" 7": -1.0, " 8": -2.0})]
    assert read(answered("Score: 7", *label)).digits == probability(d7=-1.0, d8=-2.0)


def test_of_a_digit_and_its_scale_the_digit_is_read():
    told = [entry("9", {"9": -1.0, "8": -1.0}), entry("/"), entry("9", {"9": -0.001})]
    assert read(answered("9/9", *told)).digits == probability(d9=-1.0, d8=-1.0)


@pytest.mark.parametrize("mark", [[], [entry("</think>")], [entry("</"), entry("think"), entry(">")]])
def test_tokens_of_a_reasoning_are_passed_over_whether_or_not_the_mark_is_there(mark):
    thought = [entry("Is"), entry(" it"), entry(" "), entry("7", {"7": -0.01}), entry("?")]
    told = [*thought, *mark, entry("\n\n"), entry("7", {"7": -1.0, "5": -1.0}), entry("<|im_end|>")]
    for text in ("7", "<think>Is it 7?</think>\n\n7") if mark else ("7",):
        assert read(answered(text, *told)).digits == probability(d7=-1.0, d5=-1.0)


def test_a_special_token_behind_the_answer_is_not_the_answer():
    told = [entry("7", {"7": -1.0}), entry("<|reserved_7|>", {"7": -0.001})]
    assert read(answered("7", *told)).digits == probability(d7=-1.0)


def test_raw_tokens_with_markers_are_found():
    told = [entry("ĊĊ"), entry("Ġ7", {"Ġ7": -1.0, "Ġ6": -2.0})]
    assert read(answered("\n\n 7", *told)).digits == probability(d7=-1.0, d6=-2.0)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        [],
        {"content": None},
        {"content": []},
        {"content": [None, 3]},
        7,
        "x",
        {"tokens": ["7"]},
        {"content": [{"token": "7", "logprob": -0.1}]},
        {"content": [{"token": "7", "top_logprobs": None}]},
        {"content": [entry("token_id:55", {"token_id:55": -0.1})]},
        {"tokens": ["7"], "token_logprobs": [-1], "top_logprobs": None},
        {"content": [entry("7", {"The": -0.1, "I": -1.0})]},
    ],
)
def test_without_a_usable_list_the_written_digit_is_read(logprobs):
    reading = read(completion("7", logprobs=logprobs))
    assert (reading.kind, reading.method, reading.digits) == ("ok", "parsed", {})


def test_flat_lists_of_older_servers_are_read():
    flat = {"tokens": ["7"], "token_logprobs": [-1.0], "top_logprobs": [{"7": -1.0, " 7": -2.0, "6": -2.0}]}
    assert read(completion("7", logprobs=flat)).digits == {
        "7": pytest.approx(math.exp(-1) + math.exp(-2)),
        "6": math.exp(-2),
    }


def test_a_list_with_one_possible_digit_is_flagged():
    assert read(answered("7", entry("7", {"7": 0.0, "6": -9999.0}))).flags == ("degenerate",)
    assert read(answered("7", entry("7", {"7": -0.01, "6": -9999.0}))).flags == ()


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (completion("7", finish_reason="error"), "retry", "upstream_error"),
        (completion("7", error={"message": "x"}), "retry", "upstream_error"),
        (completion("7", finish_reason="content_filter"), "skip", "content_filter"),
        (completion(None, message={"content": None, "refusal": "I cannot"}), "skip", "refusal"),
        (completion("7", finish_reason="length"), "ok", "ok"),
        (completion(None, message={"content": None, "reasoning": "7"}), "skip", "answer_in_reasoning"),
        (completion(None), "retry", "empty"),
        ({"choices": []}, "retry", "no_choices"),
        ({"choices": [None]}, "retry", "no_choices"),
        ({}, "retry", "no_choices"),
    ],
)
def test_what_is_no_verdict_is_told_apart(body, kind, reason):
    reading = read(body)
    assert (reading.kind, reading.reason) == (kind, reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYS = ("message", "finish_reason", "logprobs", "error", "native_finish_reason")


@given(st.dictionaries(st.sampled_from(KEYS), JSON), JSON)
def test_any_json_is_read_without_an_exception(choice, usage):
    for body in ({"choices": [choice], "usage": usage, "provider": usage}, choice, usage):
        read(body)


TOKENS = st.sampled_from(
    ["7", " 7", "Ġ7", "6", "1", "10", "The", "", "</think>", "<|end|>", "/", "9", ":", "Score", "\n"]
)
VALUES = st.none() | st.floats(allow_nan=True) | st.sampled_from([-9999.0, -1.0, -0.2, 0.0, 0.5])
ENTRIES = st.lists(st.tuples(TOKENS, st.lists(st.tuples(TOKENS, VALUES), max_size=4)), max_size=6)


@given(ENTRIES, st.sampled_from(["7", "Score: 7", "<think>1</think>7", "9/9", "6\nno", "seven", ""]), JSON)
def test_what_is_kept_of_a_body_reads_like_the_whole(entries, text, usage):
    told = [
        {"token": token, "top_logprobs": [{"token": name, "logprob": value} for name, value in listed]}
        for token, listed in entries
    ]
    body = answered(text, *told) | {"usage": usage}
    if read(body).kind != "retry":
        kept = trim(body)
        assert read(kept) == read(body)
        assert read(json.loads(json.dumps(kept))) == read(body)


def test_a_stored_body_becomes_the_same_reply_again():
    body = trim(completion("7"))
    reply = read_reply(body, 12)
    assert isinstance(reply, Reply) and (reply.text, reply.provider, reply.cost, reply.reason) == (
        "7",
        "loopback",
        12,
        "",
    )
    assert reply.tokens == 601 and set(reply.digits) == set("123456789")


def test_long_lists_of_a_reasoning_are_not_kept():
    many = {f"w{n}": -5.0 for n in range(20)}
    told = [entry("thought", many)] * 50 + [entry("7", {"7": -1.0})]
    assert len(json.dumps(trim(answered("7", *told)))) < 3_000
