import json

import pytest

from ask.judges.request import Shape, provider_pin, request_body, serves

URLS = ("data:image/png;base64,AAAA", "data:image/png;base64,BBBB")


SHAPE = Shape()


def built(shape=SHAPE, **changes):
    told = {"model": "vlm", "prompt": "Which?", "pictures": URLS, "seed": None, "extra": {}} | changes
    return json.loads(request_body(shape, **told))


def test_the_criterion_comes_first_and_then_the_pictures_in_order():
    (message,) = built()["messages"]
    kinds = [part["type"] for part in message["content"]]
    assert kinds == ["text", "image_url", "image_url"]
    assert [part["image_url"]["url"] for part in message["content"][1:]] == list(URLS)


def test_one_short_answer_with_log_probabilities_is_asked_for():
    body = built()
    assert (body["n"], body["stream"], body["max_tokens"], body["top_p"]) == (1, False, 4, 1)
    assert (body["logprobs"], body["top_logprobs"], body["temperature"]) == (True, 20, 0)


def test_fields_that_a_server_does_not_know_are_left_out():
    body = built(Shape(top_logprobs=0, limit="max_completion_tokens", temperature=1.0))
    assert "logprobs" not in body and "top_logprobs" not in body and "max_tokens" not in body
    assert (body["max_completion_tokens"], body["temperature"]) == (4, 1)
    assert "seed" not in body and built(seed=0)["seed"] == 0


def test_a_servers_own_switches_are_sent_along():
    assert built(extra={"reasoning": {"enabled": False}})["reasoning"] == {"enabled": False}


def test_fewer_alternatives_are_tried_down_to_none():
    tried = [Shape()]
    while smaller := tried[-1].fewer_alternatives():
        tried.append(smaller)
    assert [shape.top_logprobs for shape in tried] == [20, 5, 0]


def test_openrouter_is_kept_to_the_provider_that_was_chosen():
    pin = provider_pin(["parasail"])["provider"]
    assert pin == {"order": ["parasail"], "allow_fallbacks": False, "require_parameters": True}
    assert provider_pin([]) == {}


@pytest.mark.parametrize(
    ("provider", "pinned", "served"),
    [
        ("Alibaba", ["alibaba"], True),
        ("Google", ["google-vertex"], True),
        ("Google AI Studio", ["google-ai-studio"], True),
        ("Together AI", ["deepinfra", "together/fp8"], True),
        ("Nimbus", ["alibaba"], False),
        ("Nimbus", [], True),
        ("", ["alibaba"], True),
    ],
)
def test_names_of_providers_are_compared_by_their_letters(provider, pinned, served):
    assert serves(provider, pinned) == served
