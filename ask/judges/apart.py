"""Running a coroutine from code that waits for it, whether or not an event loop runs already, as it does in Jupyter."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent import futures
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
HEED = 0.2  # seconds: an interrupt that is no signal of the system is heeded between two waits


def run_apart(
    main: Coroutine[Any, Any, T],
    *,
    interrupt: Callable[[], None],  # called in the coroutine's loop: asks it to come to an end
    grace: float,  # seconds that it may take for that
) -> T:
    """Runs a coroutine in a loop and thread of its own and waits for it.

    Raises:
        KeyboardInterrupt: if a person interrupts the wait; the coroutine has then ended, by itself or
            cancelled.
    """
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = asyncio.run_coroutine_threadsafe(main, loop)
    try:
        while not running.done():
            futures.wait([running], timeout=HEED)
        return running.result()
    except KeyboardInterrupt:
        loop.call_soon_threadsafe(interrupt)
        with suppress(Exception, futures.CancelledError):
            running.result(timeout=grace)
        running.cancel()
        raise
    finally:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_finish(), loop).result(timeout=grace)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=grace)
        if not thread.is_alive():
            loop.close()


async def _finish() -> None:
    """Lets cancelled tasks run to their end."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if rest:
        await asyncio.wait(rest)
