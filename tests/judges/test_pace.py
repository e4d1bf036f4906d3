import asyncio
import time

from ask.judges.pace import GOOD_TO_GROW, Pace


def test_no_more_than_the_limit_are_in_flight_and_all_get_their_turn():
    pace, seen = Pace(3), []

    async def one():
        async with pace.turn():
            seen.append(pace.in_flight)
            await asyncio.sleep(0.001)

    async def all_of_them():
        await asyncio.gather(*(one() for _ in range(20)))

    asyncio.run(all_of_them())
    assert len(seen) == 20 and max(seen) == 3 and pace.in_flight == 0


def test_a_failing_or_cancelled_turn_gives_its_place_back():
    pace = Pace(1)

    async def fail():
        async with pace.turn():
            raise ValueError

    async def cancelled():
        async with pace.turn():
            await asyncio.sleep(10)

    async def run():
        await asyncio.gather(fail(), return_exceptions=True)
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(1), pace.turn():
            return pace.in_flight

    assert asyncio.run(run()) == 1


def test_an_overload_halves_once_for_all_that_were_in_flight_together():
    pace = Pace(64)
    together = time.monotonic()
    for _ in range(64):
        pace.overloaded(together)
    assert pace.limit == 32
    pace.overloaded(time.monotonic())
    assert pace.limit == 16
    for _ in range(10):
        pace.overloaded(time.monotonic())
    assert pace.limit == 1


def test_the_limit_grows_back_by_one_after_many_good_answers_and_not_beyond_the_most():
    pace = Pace(4)
    pace.overloaded(time.monotonic())
    for _ in range(GOOD_TO_GROW):
        pace.good()
    assert pace.limit == 3
    for _ in range(10 * GOOD_TO_GROW):
        pace.good()
    assert pace.limit == 4


def test_the_longest_wait_closes_the_gate():
    pace = Pace(4)
    assert pace.closed_for() == 0
    pace.close(60)
    pace.close(1)
    assert 59 < pace.closed_for() <= 60
