import json

import cases
import pytest
from hypothesis import given
from hypothesis import strategies as st
from server import completion, error

from ask.judges.outcome import cost, judge_response
from ask.judges.text import find_digit

NOW = 1_780_000_000.0


def judged(status, body, headers=None, max_wait=120.0):
    text = body if isinstance(body, str) else json.dumps(body)
    return judge_response(status, headers or {}, text, now=NOW, max_wait=max_wait)


def told(message, status=400, **fields):
    _, headers, body = error(status, message, **fields)
    outcome = judged(status, body, headers)
    return outcome.kind, outcome.reason


ANSWERED = [case for case in cases.CASES if case["kind"] == "http" and "status" in case["payload"]]
PRICED = [
    case
    for case in cases.CASES
    if case["kind"] == "http" and "price" in case["payload"] and "usage" in case["payload"]
]


@pytest.mark.parametrize("case", ANSWERED, ids=[case["id"] for case in ANSWERED])
def test_http_answers_from_practice(case):
    payload = case["payload"]
    body = payload.get("raw", json.dumps(payload.get("body")))
    limits = {"now": payload["now"], "max_wait": payload["policy"]["max_wait_s"]}
    limits["pinned"] = [payload[key] for key in ("pinned_provider",) if key in payload]
    outcome = judge_response(payload["status"], payload["headers"], body, **limits)
    found = {"outcome": outcome.kind, "wait_s": outcome.wait}
    if outcome.kind == "ok":
        found |= {"method": outcome.reading.method, "score": float(find_digit(outcome.reading.text).digit)}
    reasons = [case["expected"]["reason"], *case["expected"].get("flags", [])]
    assert cases.fits(case, **found) and outcome.reason in reasons


@pytest.mark.parametrize("case", PRICED, ids=[case["id"] for case in PRICED])
def test_costs_from_practice(case):
    price = case["payload"]["price"]
    prices = {"input_price": price["input_per_m"], "output_price": price["output_per_m"]}
    found = cost(case["payload"]["usage"], **prices, cached_price=price["cached_input_per_m"])
    assert cases.fits(case, outcome="ok", cost_usd=None if found is None else found / 1e6)


def test_errors_in_a_200_are_judged_by_their_code():
    for status in (401, 404, 429, 500):
        _, headers, body = error(status, "no")
        inside, outside = judged(200, body, headers), judged(status, body, headers)
        assert (inside.kind, inside.reason) == (outside.kind, outside.reason)
    for code in (None, "oops", 0, True, 200, [], "rate_limit_exceeded"):
        outcome = judged(200, {"error": {"message": "no", "code": code}})
        assert (outcome.kind, outcome.reason) == ("retry", "upstream_error")
    assert judged(200, {"error": "plain text"}).kind == "retry"
    assert judged(200, {"error": {"code": "429", "message": "slow"}}).reason == "rate_limit"


@pytest.mark.parametrize(
    "text", ["", "<html>", '{"choices": [', "null", "[]", '"7"', "7", "data: {}", "[" * 99_999]
)
def test_a_200_that_is_no_object_is_asked_again(text):
    assert judged(200, text).reason == "bad_body" and judged(200, text).kind == "retry"


def test_white_space_and_a_byte_order_mark_before_the_json_are_nothing():
    assert judged(200, "\n \n" + json.dumps(completion("7"))).kind == "ok"
    assert judged(200, "\ufeff" + json.dumps(completion("7"))).kind == "ok"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529, 599])
def test_what_may_pass_is_asked_again(status):
    assert judged(status, {"error": {"message": "busy"}}).kind == "retry"
    assert judged(status, "<html>").kind == "retry"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (301, "bad_request"),
        (400, "bad_request"),
        (401, "auth"),
        (402, "credits"),
        (403, "auth"),
        (404, "bad_request"),
        (405, "bad_request"),
        (422, "bad_request"),
    ],
)
def test_what_will_not_pass_stops_the_run(status, reason):
    outcome = judged(status, {"error": {"message": "the model vlm-z is unknown"}})
    assert (outcome.kind, outcome.reason, outcome.message) == ("fatal", reason, "the model vlm-z is unknown")


@pytest.mark.parametrize(
    "message",
    [
        "could not process image",
        "Invalid image data",
        "cannot identify image file",
        "unsupported image media type image/bmp",
        "image dimensions exceed 8000 pixels",
        "absolute aspect ratio must be smaller than 200, got 300",
        "height:14 or width:20 must be larger than factor:28",
        "The image is too small",
        "image file is truncated",
        "Failed to decode picture",
        "media_type must be one of image/jpeg, image/png",
        "image exceeds 5 MB maximum",
    ],
)
def test_a_complaint_about_this_picture_skips_this_pair(message):
    assert told(message) == ("skip", "bad_image")
    assert told(message, status=500) == ("skip", "bad_image")


def test_a_body_that_is_too_large_skips_this_pair():
    assert told("request entity too large", status=413) == ("skip", "bad_image")


@pytest.mark.parametrize(
    "message",
    [
        "At most 1 image(s) may be provided in one request.",
        "at most 1 image per prompt, got 2",
        "You set image=2 but the limit is: too many images",
        "This model supports only one image per request",
        "multiple images are not supported",
        "Only a single image is allowed per message",
        "Multi-image input is disabled",
    ],
)
def test_a_server_that_takes_one_image_only_stops_the_run(message):
    assert told(message) == ("fatal", "multi_image_disabled")
    assert told(message, status=500) == ("fatal", "multi_image_disabled")


@pytest.mark.parametrize(
    "message",
    [
        "This model does not support image input",
        "image input is not supported - hint: you may need to provide the mmproj",
        "vlm-x is not a multimodal model",
        "No endpoints found that support image input is a text-only model",
        "The model has no vision part",
    ],
)
def test_a_server_without_eyes_stops_the_run(message):
    for status in (400, 404, 500):
        assert told(message, status=status) == ("fatal", "no_vision")


def test_what_a_filter_refuses_is_skipped_and_a_refused_key_is_not():
    assert told("Your input was flagged", status=403) == ("skip", "moderation")
    assert told("no", status=403, metadata={"reasons": ["violence"], "flagged_input": "x"}) == (
        "skip",
        "moderation",
    )
    assert told("filtered due to ResponsibleAIPolicyViolation") == ("skip", "content_filter")
    assert told("key disabled", status=403) == ("fatal", "auth")


def test_no_more_quota_is_not_a_matter_of_waiting():
    assert told("You exceeded your current quota", status=429) == ("fatal", "quota")
    assert told("x", status=429, type="insufficient_quota") == ("fatal", "quota")
    assert told("slow down", status=429) == ("retry", "rate_limit")


def test_payment_required_for_now_is_waited_for():
    assert judged(402, {"error": {"message": "topping up"}}, {"Retry-After": "5"}).wait == 5
    assert judged(402, {"error": {"message": "empty"}}).kind == "fatal"


def test_a_wait_beyond_the_limit_stops_the_run_and_says_so():
    outcome = judged(429, {"error": {"message": "daily limit"}}, {"Retry-After": "7200"})
    assert (outcome.kind, outcome.reason, outcome.wait) == ("fatal", "wait_too_long", 7200)
    assert (
        judged(503, {}, {"Retry-After": "121"}).kind == "fatal"
        and judged(503, {}, {"Retry-After": "119"}).kind == "retry"
    )


def test_a_limit_that_is_not_used_up_does_not_hold_up_an_ordinary_failure():
    headers = {"x-ratelimit-remaining-requests": "812", "x-ratelimit-reset-requests": "8h"}
    assert (judged(500, {}, headers).kind, judged(500, {}, headers).wait) == ("retry", None)


def test_an_answer_comes_with_what_is_kept_of_it():
    outcome = judged(200, completion("7"))
    assert outcome.kind == "ok" and outcome.body["choices"][0]["message"] == {"content": "7"}
    assert outcome.usage["cost"] == 0.001 and judged(200, completion("")).body is None


def test_money_is_counted_in_whole_micro_dollars_rounded_up():
    prices = {"input_price": 0.39, "output_price": 2.34}
    assert cost({"cost": 0.001}, **prices) == 1_000
    assert cost({"cost": 0.0000001}, **prices) == 1 and cost({"cost": 0}, **prices) == 0
    assert cost({"cost": 0.0001, "cost_details": {"upstream_inference_cost": 0.0004}}, **prices) == 500
    assert cost({"prompt_tokens": 600, "completion_tokens": 2}, **prices) == 239
    details = {"prompt_tokens": 600, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 600}}
    assert cost(details, **prices, cached_price=0.039) == 29


@pytest.mark.parametrize(
    "usage", [None, {}, [], {"cost": "x"}, {"cost": -1}, {"prompt_tokens": 5}, {"cost": float("nan")}]
)
def test_a_cost_that_nobody_told_is_unknown_and_not_nothing(usage):
    assert cost(usage, input_price=1, output_price=1) is None


@given(st.integers(100, 599), st.text(), st.dictionaries(st.text(), st.text()))
def test_no_answer_of_any_kind_raises(status, text, headers):
    assert judged(status, text, headers).kind in ("ok", "retry", "skip", "fatal")
