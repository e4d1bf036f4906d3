"""A whole hosted judge against a server on loopback, through the journal."""

import _thread
import asyncio
import json
import signal
import threading
import time

import numpy as np
import pytest
from PIL import Image
from server import Server, completion, error, expected_score, pictures_of

from ask.datasets.pictures import PictureError, open_pictures
from ask.elicitation import dense_pairs, elicit
from ask.journal import publish
from ask.judges import JudgeError
from ask.judges.hosted import Hosted

N = 8
FREE = {"model": "vlm", "key": None, "free": True, "attempts": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("pictures")
    for row in range(N):
        pixels = np.random.default_rng(row).integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(made / f"{row}.png")
    return made


@pytest.fixture
def hosted(folder, tmp_path):
    """A function that makes the judge; it shares one store per test."""

    def make(url, *, budget=0.0, criterion="breed", prompt="Which breed? 1-9.", published=None, **entry):
        pictures = open_pictures(folder)
        paths = [f"{row}.png" for row in range(N)]
        told = {**FREE, "base_url": url, **entry}
        places = {"store": tmp_path / "store", "published": published}
        return Hosted("served", told, criterion, prompt, pictures, paths, **places, budget=budget)

    return make


@pytest.fixture(scope="module")
def pairs(folder):
    pictures = open_pictures(folder)
    return dense_pairs([range(N)], [pictures.sha256(f"{row}.png") for row in range(N)])


def digit_of(body):
    """Some digit that depends on the two pictures and their order."""
    return str(1 + hash(tuple(pictures_of(body))) % 9)


def honest(number, body):
    return completion(digit_of(body))


def scores(judge, pairs, tmp_path, **kwargs):
    return elicit(judge, pairs, store=tmp_path / "store", **kwargs)


def test_each_pair_is_asked_once_and_scored_by_the_expected_digit(hosted, pairs, tmp_path):
    with Server(honest) as server:
        found = scores(hosted(server.url), pairs, tmp_path)
    assert set(server.asked.values()) == {1} and len(server.requests) == len(pairs) == found.asked
    judged = found.judgments
    assert judged["method"].eq("expected").all()
    wanted = {tuple(pictures_of(body)): expected_score(digit_of(body)) for body in server.requests}
    assert sorted(judged["score"]) == pytest.approx(sorted(wanted.values()))
    assert judged["provider"].eq("loopback").all() and judged["cost"].eq(1_000).all()


def test_a_second_run_asks_nothing_and_says_the_same(hosted, pairs, tmp_path):
    with Server(honest) as server:
        first = scores(hosted(server.url), pairs, tmp_path)
        asked = len(server.requests)
        again = scores(hosted(server.url), pairs, tmp_path)
    assert len(server.requests) == asked and again.asked == 0
    assert again.judgments.equals(first.judgments)


def test_a_clone_that_pulled_the_snapshot_asks_nothing_and_needs_no_server(hosted, pairs, tmp_path):
    with Server(honest) as server:
        url, first = server.url, scores(hosted(server.url), pairs, tmp_path)
    publish(tmp_path / "store", tmp_path / "published")
    judge = hosted(url, published=tmp_path / "published")
    judge._store = tmp_path / "elsewhere"
    fresh = elicit(judge, pairs, store=tmp_path / "elsewhere", published=tmp_path / "published")
    assert fresh.asked == 0 and fresh.judgments.equals(first.judgments)


def test_it_works_where_a_loop_is_already_running(hosted, pairs, tmp_path):
    async def cell():
        return scores(hosted(server.url), pairs[:4], tmp_path)

    with Server(honest) as server:
        assert len(asyncio.run(cell()).judgments) == 4


def test_the_shape_that_a_server_accepts_is_probed_once_and_never_varied(hosted, pairs, tmp_path):
    def fussy(number, body):
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: max_tokens; use max_completion_tokens")
        if body["top_logprobs"] > 5:
            return error(400, "top_logprobs must be at most 5")
        return honest(number, body)

    with Server(fussy) as server:
        judge = hosted(server.url)
        scores(judge, pairs, tmp_path)
        assert judge.identity["request"]["limit"] == "max_completion_tokens"
        assert judge.identity["request"]["top_logprobs"] == 5
        assert len(server.requests) == len(pairs) + 2
        fresh = hosted(server.url)
        assert fresh.identity == judge.identity
        scores(fresh, pairs, tmp_path)
        assert len(server.requests) == len(pairs) + 2


def test_a_judge_declared_expected_stops_at_a_server_without_probabilities(hosted, pairs, tmp_path):
    with Server(lambda *_: completion("7", logprobs=None)) as server:
        with pytest.raises(JudgeError, match="no probabilities of digits came"):
            scores(hosted(server.url), pairs, tmp_path)
        assert len(server.requests) == 3
        parsed = scores(hosted(server.url, method="parsed"), pairs, tmp_path).judgments
    assert parsed["method"].eq("parsed").all() and parsed["score"].eq(7).all()


def test_an_answer_of_the_other_kind_is_kept_and_counted_but_has_no_score(hosted, pairs, tmp_path):
    def sometimes(number, body):
        return completion("7", logprobs=None) if number == 10 else honest(number, body)

    with Server(sometimes) as server:
        judged = scores(hosted(server.url), pairs, tmp_path).judgments
    assert judged["method"].value_counts().to_dict() == {"expected": len(pairs) - 1, "parsed": 1}
    assert judged["score"].isna().sum() == 1


def test_an_answer_from_another_provider_than_pinned_is_kept_and_counted_but_has_no_score(
    hosted, pairs, tmp_path
):
    def sometimes(number, body):
        assert body["provider"]["order"] == ["loop-back"]
        return honest(number, body) | ({"provider": "Nimbus"} if number == 10 else {})

    with Server(sometimes) as server:
        judge = hosted(server.url, providers=["loop-back"])
        judged = scores(judge, pairs, tmp_path).judgments
        again = scores(hosted(server.url, providers=["loop-back"]), pairs, tmp_path)
    assert judged["score"].isna().sum() == 1 and judge.trouble == {"provider_mismatch": 1}
    assert judged.loc[judged["score"].isna(), "provider"].tolist() == ["Nimbus"]
    assert again.asked == 0 and again.judgments.equals(judged)


def test_a_pin_that_nobody_keeps_to_is_noticed_after_three_answers(hosted, pairs, tmp_path):
    with Server(honest) as server, pytest.raises(JudgeError, match="loopback answered, which is not among"):
        scores(hosted(server.url, providers=["alibaba"]), pairs, tmp_path)
    assert len(server.requests) == 3


def test_without_a_budget_nothing_is_spent(hosted, pairs, tmp_path):
    paid = {"free": False, "input_price": 0.39, "output_price": 2.34}
    with Server(honest) as server:
        with pytest.raises(JudgeError, match=r"takes money, about .* for 28 pairs; set elicitation.budget"):
            scores(hosted(server.url, **paid), pairs, tmp_path)
        assert server.requests == []
        with pytest.raises(JudgeError, match=r"stopped asking .budget"):
            scores(hosted(server.url, **paid, budget=0.0105, concurrency=1), pairs, tmp_path)
        assert len(server.requests) == 10
        found = scores(hosted(server.url, **paid, budget=0.1), pairs, tmp_path)
    assert found.asked == len(pairs) - 10 and len(server.requests) == len(pairs)


def test_a_missing_key_is_noticed_before_anything_is_sent(hosted, pairs, tmp_path, monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    with Server(honest) as server, pytest.raises(JudgeError, match="A_KEY holds no key"):
        scores(hosted(server.url, key="A_KEY"), pairs, tmp_path)
    assert server.requests == []


def test_the_key_is_in_no_file_and_no_error(hosted, pairs, tmp_path, monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-very-secret-1234")

    def leaky(number, body):
        told = "your key sk-very-secret-1234"
        return error(401, told) if number == 20 else honest(number, body) | {"model": told}

    with Server(leaky) as server, pytest.raises(JudgeError) as raised:
        scores(hosted(server.url, key="A_KEY"), pairs, tmp_path)
    assert "very-secret" not in str(raised.value)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(b"very-secret" in data for data in written)


def test_a_broken_picture_is_named_before_anything_is_sent(folder, hosted, pairs, tmp_path):
    judge_folder = tmp_path / "broken"
    judge_folder.mkdir()
    for row in range(N):
        data = (folder / f"{row}.png").read_bytes()
        (judge_folder / f"{row}.png").write_bytes(data[:60] if row == 5 else data)
    with Server(honest) as server:
        entry = {**FREE, "base_url": server.url}
        paths = [f"{row}.png" for row in range(N)]
        judge = Hosted(
            "served", entry, "breed", "?", open_pictures(judge_folder), paths, store=tmp_path / "store"
        )
        with pytest.raises(PictureError, match=r"5\.png"):
            scores(judge, pairs, tmp_path)
    assert server.requests == []


def test_what_failed_is_asked_again_next_time_and_nothing_else(hosted, pairs, tmp_path):
    def bad(number, body):
        return error(503) if hard(body) else honest(number, body)

    def hard(body):
        return pictures_of(body) == hard.pictures

    with Server(honest) as server:
        scores(hosted(server.url, criterion="other"), pairs, tmp_path)
        hard.pictures = pictures_of(server.requests[-1])
    quick = {"attempts": 2, "concurrency": 4}
    with Server(bad) as server:
        with pytest.raises(JudgeError, match="left 1 of 28 pairs without an answer"):
            scores(hosted(server.url, **quick), pairs, tmp_path)
        server.answer = honest
        asked = len(server.requests)
        assert scores(hosted(server.url, **quick), pairs, tmp_path).asked == 1
        assert len(server.requests) == asked + 1


def test_a_refused_pair_is_recorded_and_not_asked_again(hosted, pairs, tmp_path):
    def prudish(number, body):
        return (
            error(403, "flagged by moderation", metadata={"reasons": ["x"]})
            if number == 9
            else honest(number, body)
        )

    with Server(prudish) as server:
        first = scores(hosted(server.url), pairs, tmp_path).judgments
        assert scores(hosted(server.url), pairs, tmp_path).asked == 0
    assert first["method"].value_counts().to_dict() == {"expected": len(pairs) - 1, "none": 1}
    assert first.loc[first["method"] == "none", "reason"].item() != ""


@pytest.fixture
def interruptible():
    """Interrupts are heeded, also where the tests were started in the background of a shell, which ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_returns_within_two_seconds_with_everything_saved(hosted, pairs, tmp_path):
    def wait_for_an_hour(number, body):
        return error(429, headers={"Retry-After": "60"}) if number > 12 else honest(number, body)

    with Server(wait_for_an_hour) as server:
        threading.Timer(1.0, _thread.interrupt_main).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            scores(hosted(server.url, concurrency=2), pairs, tmp_path)
        assert time.monotonic() - began < 3
        server.answer = honest
        assert scores(hosted(server.url), pairs, tmp_path).asked == len(pairs) - 12
    assert len(server.requests) <= len(pairs) + 2 * 2


def test_pictures_are_encoded_once_however_many_pairs_they_are_in(hosted, pairs, tmp_path, monkeypatch):
    judge, opened = hosted("http://127.0.0.1:9/v1"), []
    load = judge._pictures._pictures.load
    monkeypatch.setattr(judge._pictures._pictures, "load", lambda path: opened.append(path) or load(path))
    with Server(honest) as server:
        judge._settings["base_url"] = server.url
        scores(judge, pairs, tmp_path)
    assert sorted(opened) == [f"{row}.png" for row in range(N)]


def test_the_identity_holds_what_changes_an_answer_and_nothing_else(hosted):
    def identity(**changes):
        return json.dumps(
            hosted(changes.pop("url", "https://r.example/v1"), **changes).identity, sort_keys=True
        )

    same = identity()
    assert (
        identity(concurrency=64)
        == identity(timeout=5)
        == identity(key="OTHER")
        == identity(attempts=1)
        == same
    )
    others = [
        identity(prompt="Which breed? 1-9. "),
        identity(model="vlm-2"),
        identity(providers=["nimbus"]),
        identity(extra={"reasoning": {"enabled": False}}),
        identity(preparation={"max_side": 384}),
        identity(seed=1),
        identity(method="parsed"),
        identity(url="https://s.example/v1"),
    ]
    assert len({same, *others}) == 1 + len(others)
