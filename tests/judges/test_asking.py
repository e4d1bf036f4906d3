"""Many questions at once, against a server that is a function: what is asked how often, kept, waited for, given up."""

import asyncio
import json
import time
from collections import Counter

import pytest
from server import completion, error

from ask.judges.asking import Asking, Rules, StoppedError
from ask.judges.budget import Budget
from ask.judges.transport import Received, TransportError

QUICK = {"first_wait": 0.001, "longest_wait": 0.002}


class Run:
    """Asks ``questions`` of ``answer(number, question)``, which may return, sleep, or raise; then tells all."""

    def __init__(self, answer, questions, *, budget=None, estimate=1_000, interrupt_after=None, **rules):
        self.requests, self.kept, self.most_in_flight = [], {}, 0
        self._answer, self._in_flight = answer, 0
        self.budget = Budget(budget, estimate)
        self.trouble = Counter()
        self.asking = Asking(
            self._post,
            lambda question: json.dumps(question).encode(),
            lambda question, outcome, cost: self.kept.setdefault(question, (outcome, cost)),
            rules=Rules(**{**QUICK, **rules}),
            budget=self.budget,
            trouble=self.trouble,
        )
        began = time.monotonic()
        try:
            asyncio.run(self._run(questions, interrupt_after))
            self.stopped = None
        except StoppedError as stopped:
            self.stopped = stopped
        self.seconds = time.monotonic() - began

    async def _run(self, questions, interrupt_after):
        if interrupt_after is not None:
            asyncio.get_running_loop().call_later(interrupt_after, self.asking.interrupt)
        await self.asking.run(questions)

    async def _post(self, body):
        question = json.loads(body)
        self.requests.append(question)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            told = self._answer(len(self.requests), question)
            told = await told if asyncio.iscoroutine(told) else told
        finally:
            self._in_flight -= 1
        status, headers, told = told if isinstance(told, tuple) else (200, {}, told)
        return Received(status, headers, told if isinstance(told, str) else json.dumps(told))

    @property
    def ok(self):
        return sorted(question for question, (outcome, _) in self.kept.items() if outcome.kind == "ok")

    @property
    def skipped(self):
        return sorted(question for question, (outcome, _) in self.kept.items() if outcome.kind == "skip")


def seven(*_):
    return completion("7")


def test_every_question_is_asked_once_and_kept_with_its_cost():
    run = Run(seven, range(30), concurrency=8)
    assert run.ok == sorted(run.requests) == list(range(30))
    assert {cost for _, cost in run.kept.values()} == {1_000} and run.budget.spent == 30_000


def test_never_more_are_in_flight_than_asked_for():
    async def slow(*_):
        await asyncio.sleep(0.005)
        return seven()

    run = Run(slow, range(300), concurrency=40)
    assert len(run.ok) == len(run.requests) == 300 and run.most_in_flight == 40


def test_questions_are_drawn_as_they_are_needed():
    drawn = []

    def questions():
        for question in range(1_000):
            drawn.append(question)
            yield question

    run = Run(lambda number, _: seven() if number < 10 else error(401), questions(), concurrency=4)
    assert run.stopped.reason != "" and len(drawn) <= 10 + 2 * 4


def test_one_refused_picture_is_skipped_without_a_second_try_and_the_others_go_on():
    run = Run(
        lambda _, question: error(400, "cannot decode image") if question == 17 else seven(),
        range(50),
        concurrency=8,
    )
    assert len(run.ok) == 49 and run.skipped == [17] and len(run.requests) == 50
    assert run.stopped is None


def test_attempts_are_counted_and_a_question_without_answer_is_not_kept():
    run = Run(lambda *_: error(503), ["one"], attempts=4)
    assert len(run.requests) == 4 and run.kept == {} and run.trouble["failed"] == 1 and run.stopped is None


def test_one_failure_among_others_leaves_only_itself_out():
    run = Run(lambda _, question: error(503) if question == 2 else seven(), [1, 2, 3], attempts=2)
    assert run.ok == [1, 3] and run.kept.keys() == {1, 3}


def test_an_empty_answer_is_asked_again():
    run = Run(lambda number, _: completion("") if number < 3 else seven(), ["one"], attempts=4)
    assert run.ok == ["one"] and len(run.requests) == 3


def test_answers_that_are_all_cut_short_stop_the_run():
    run = Run(lambda *_: completion("", finish_reason="length"), range(1_000), concurrency=8)
    assert run.stopped.reason == "too_many_skips" and len(run.requests) <= 28 and run.ok == []
    assert len(run.skipped) == len(run.requests)


def test_failures_in_a_row_stop_the_run_too():
    run = Run(lambda *_: error(500, "out of order"), range(1_000), concurrency=4, attempts=2)
    assert run.stopped.reason == "too_many_failures" and len(run.requests) <= 2 * (20 + 4)
    assert "out of order" in str(run.stopped)


def test_now_and_then_a_skip_stops_nothing():
    def answer(_, question):
        return seven() if question % 10 == 0 else completion("maybe")

    assert Run(answer, range(300), concurrency=1).stopped is None


def test_a_fatal_answer_ends_the_run_and_what_is_on_its_way_is_kept():
    async def answer(number, _):
        await asyncio.sleep(0.01 if number == 5 else 0.05)
        if number == 5:
            return error(401, "bad key")
        return seven()

    run = Run(answer, range(1_000), concurrency=10)
    assert run.stopped is not None and "bad key" in str(run.stopped)
    assert len(run.requests) == 10 and len(run.ok) == 9


@pytest.mark.parametrize("wait", [0.3])
def test_a_wait_that_the_server_wants_holds_for_everybody(wait):
    began, times = time.monotonic(), []

    def answer(number, _):
        times.append(time.monotonic() - began)
        return error(429, headers={"Retry-After": str(wait)}) if number == 1 else seven()

    run = Run(answer, range(20), concurrency=1)
    assert len(run.ok) == 20 and times[1] >= wait


def test_a_wait_beyond_the_limit_ends_the_run_and_says_when_to_come_back():
    run = Run(lambda *_: error(429, headers={"Retry-After": "7200"}), range(10), concurrency=2, max_wait=300)
    assert run.stopped.wait == 7200 and len(run.requests) <= 2 and run.seconds < 2


def test_an_interrupt_ends_waits_at_once():
    run = Run(
        lambda *_: error(429, headers={"Retry-After": "60"}), range(10), concurrency=2, interrupt_after=0.3
    )
    assert run.stopped.reason == "interrupted" and run.seconds < 2


def test_an_overloaded_server_is_asked_less_at_a_time():
    async def answer(number, _):
        await asyncio.sleep(0.002)
        return error(429, headers={"retry-after-ms": "1"}) if number <= 16 else seven()

    run = Run(answer, range(40), concurrency=16)
    assert len(run.ok) == 40 and run.asking._pace.limit <= 8 + 1


def test_the_budget_stops_before_the_limit():
    run = Run(seven, range(50), concurrency=5, budget=10_500)
    assert run.stopped.reason == "budget" and len(run.ok) == len(run.requests) == 10
    assert run.budget.spent == 10_000


def test_a_cost_of_three_times_the_estimate_overshoots_by_no_more_than_what_is_in_flight():
    async def dear(*_):
        await asyncio.sleep(0.001)
        return completion("7", cost=0.003)

    run = Run(dear, range(100), concurrency=5, budget=30_000)
    assert run.stopped.reason == "budget" and run.budget.spent <= 45_000


def test_a_refused_request_costs_nothing_and_a_broken_one_may_have_cost():
    def answer(number, _):
        if number == 1:
            return error(503)
        if number == 2:
            raise TransportError("timeout", doubtful=True)
        return seven()

    run = Run(answer, ["one"], estimate=700)
    assert run.ok == ["one"] and run.budget.spent == 700 + 1_000 and run.budget.doubtful == 1


def test_an_untrusted_certificate_is_not_tried_again():
    def answer(*_):
        raise TransportError("tls", fatal=True)

    run = Run(answer, range(10), concurrency=1)
    assert run.stopped.reason == "tls" and len(run.requests) == 1


def test_what_cannot_be_kept_ends_the_run_with_its_own_error():
    async def run():
        def full(*_):
            raise OSError("no space left")

        async def post(_):
            return Received(200, {}, json.dumps(seven()))

        asking = Asking(post, lambda _: b"{}", full, rules=Rules(), budget=Budget(None, 0), trouble=Counter())
        await asking.run(range(10))

    with pytest.raises(OSError, match="no space left"):
        asyncio.run(run())
