import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.judges.waiting import asked_wait, wait

NOW = 1_780_000_000.0  # Thu, 28 May 2026 20:26:40 GMT


def inner(**headers):
    return {"error": {"metadata": {"headers": headers}}}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "12"}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"RETRY-AFTER": " 3 "}, 3),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "30s"}, 30),
        ({"Retry-After": "1m30s"}, 90),
        ({"Retry-After": "Thu, 28 May 2026 20:27:40 GMT"}, 60),
        ({"Retry-After": "Thu, 28 May 2026 20:20:00 GMT"}, 0),
        ({"Retry-After": "Thu, 28 May 2026 22:27:40 +0200"}, 60),
        ({"Retry-After": "Thu, 28 May 2026 20:27:40"}, 60),
        ({"retry-after-ms": "750", "retry-after": "1"}, 0.75),
        ({"Retry-After-Ms": "x", "retry-after": "1"}, 1),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723),
        ({"x-ratelimit-reset-tokens": "250ms"}, 0.25),
        ({"x-ratelimit-reset-requests": "10s", "x-ratelimit-reset-tokens": "20s"}, 20),
        (
            {
                "x-ratelimit-reset-requests": "8h",
                "x-ratelimit-remaining-requests": "5",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
            },
            2,
        ),
        (
            {
                "x-ratelimit-reset-requests": "9s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
            },
            9,
        ),
        ({"X-RateLimit-Reset": "1780000030"}, 30),
        ({"X-RateLimit-Reset": "1780000030500"}, 30.5),
        ({"X-RateLimit-Reset": "1779999990"}, 0),
        ({"X-RateLimit-Reset": "45"}, 45),
        ({"Retry-After": "7", "X-RateLimit-Reset": "1780000030"}, 7),
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"X-RateLimit-Reset": "tomorrow"}, None),
    ],
)
def test_every_way_of_asking_for_a_wait(headers, seconds):
    assert wait(headers, None, now=NOW) == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_a_router_passes_its_upstreams_headers_on_in_the_body():
    assert wait({}, inner(**{"X-RateLimit-Reset": "1780000011000"}), now=NOW) == 11
    assert wait({}, inner(**{"X-RateLimit-Reset": 1780000011000}), now=NOW) == 11
    assert wait({}, inner(**{"Retry-After": "4"}), now=NOW) == 4
    assert wait({"Retry-After": "2"}, inner(**{"X-RateLimit-Reset": "1780000011000"}), now=NOW) == 2


@pytest.mark.parametrize(
    "body", [None, [], "x", {"error": "x"}, {"error": {"metadata": None}}, inner(a=None)]
)
def test_a_body_without_a_hint_gives_none(body):
    assert wait({}, body, now=NOW) is None


def test_what_is_asked_outright_is_told_apart_from_a_limits_reset():
    assert asked_wait({"x-ratelimit-reset-requests": "8h"}, now=NOW) is None
    assert asked_wait({"Retry-After": "8"}, now=NOW) == 8


NAMES = [
    "Retry-After",
    "retry-after-ms",
    "X-RateLimit-Reset",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-remaining-tokens",
]


@given(st.dictionaries(st.sampled_from(NAMES), st.text() | st.floats().map(str) | st.integers().map(str)))
def test_no_header_raises_or_asks_for_a_negative_wait(headers):
    seconds = wait(headers, inner(**headers), now=NOW)
    assert seconds is None or seconds >= 0
