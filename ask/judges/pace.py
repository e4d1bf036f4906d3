"""How many requests may be in flight at a time, and how soon the next may start."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

GOOD_TO_GROW = 50  # answers in a row before one more request may be in flight


class Pace:
    """A limit that halves when a server is overloaded and grows back, and a gate that it can close for all."""

    def __init__(self, most: int):
        self.most = most
        self.limit = most
        self.in_flight = 0
        self._good = 0
        self._opens = 0.0  # on the clock of time.monotonic
        self._halved = 0.0
        self._free = asyncio.Condition()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """Waits for a free place and holds it; gives the time at which it began."""
        async with self._free:
            await self._free.wait_for(lambda: self.in_flight < self.limit)
            self.in_flight += 1
        try:
            yield time.monotonic()
        finally:
            async with self._free:
                self.in_flight -= 1
                self._free.notify()

    def close(self, seconds: float) -> None:
        """Closes the gate for a while."""
        self._opens = max(self._opens, time.monotonic() + seconds)

    def closed_for(self) -> float:
        """Seconds until the gate opens, 0 if it is open."""
        return max(0.0, self._opens - time.monotonic())

    def good(self) -> None:
        """Notes an answer; after enough of them one more request may be in flight."""
        self._good += 1
        if self._good >= GOOD_TO_GROW and self.limit < self.most:
            self._good = 0
            self.limit += 1

    def overloaded(self, began: float) -> None:
        """Halves the limit, once for all requests that were in flight together."""
        self._good = 0
        if began >= self._halved:
            self._halved = time.monotonic()
            self.limit = max(1, self.limit // 2)
