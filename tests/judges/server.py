"""An OpenAI-compatible server on loopback that misbehaves on cue, in a thread or a process of its own."""

import asyncio
import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


def completion(content: str | None = "7", *, cost: float | None = 0.001, **changes: Any) -> dict:
    """A chat completion whose answer is ``content``, with nine log-probabilities around it if it is a digit."""
    logprobs = None
    if content and content in "123456789":
        near = [(v, -abs(v - int(content)) - 0.5) for v in range(1, 10)]
        top = [{"token": str(v), "logprob": p} for v, p in sorted(near, key=lambda pair: -pair[1])]
        logprobs = {"content": [{"token": content, "logprob": top[0]["logprob"], "top_logprobs": top}]}
    usage = {"prompt_tokens": 600, "completion_tokens": 1, "total_tokens": 601}
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    body = {
        "id": "gen-1",
        "model": "vlm",
        "provider": "loopback",
        "choices": [choice | {"logprobs": logprobs} | changes],
        "usage": usage | ({"cost": cost} if cost is not None else {}),
    }
    return body


def expected_score(content: str) -> float:
    """The score that `completion` stands for, worked out the long way."""
    weights = {v: math.exp(-abs(v - int(content)) - 0.5) for v in range(1, 10)}
    return sum(v * w for v, w in weights.items()) / sum(weights.values())


@dataclass
class Server:
    """``with Server(answer) as server``: each request goes to ``answer(number, body)``.

    ``answer`` returns a body, a (status, headers, body) triple, or raises to break the connection. Numbers count
    from one.
    """

    answer: Callable[[int, dict], Any] = lambda number, body: completion()
    delay: float = 0.0
    requests: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    most_in_flight: int = 0

    def __enter__(self):
        self._in_flight = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def asked(self) -> Counter:
        """How often each ordered pair of pictures was sent."""
        return Counter(tuple(pictures_of(body)) for body in self.requests)

    async def _start(self) -> str:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._reply)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        number = len(self.requests)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            await asyncio.sleep(self.delay(number) if callable(self.delay) else self.delay)
            try:
                told = self.answer(number, body)
            except ConnectionError:
                request.transport.abort()
                return web.Response()
            status, headers, told = told if isinstance(told, tuple) else (200, {}, told)
            text = told if isinstance(told, str) else json.dumps(told)
            return web.Response(status=status, headers=headers, text=text, content_type="application/json")
        finally:
            self._in_flight -= 1


def pictures_of(body: dict) -> list[str]:
    """The data URLs of a request, in order."""
    return [
        part["image_url"]["url"] for part in body["messages"][0]["content"] if part["type"] == "image_url"
    ]


def error(status: int, message: str = "no", headers: dict | None = None, **fields: Any) -> tuple:
    """An answer that is an error."""
    return status, headers or {}, {"error": {"message": message, "code": status} | fields}


async def serve_plainly(delay: float) -> None:
    """Answers every request after a while and as cheaply as possible; prints the port, then counts on request."""
    text = json.dumps(completion()).encode()
    asked: Counter = Counter()

    async def reply(request: web.Request) -> web.Response:
        asked[hash(await request.read())] += 1
        await asyncio.sleep(delay)
        return web.Response(body=text, content_type="application/json")

    async def count(_: web.Request) -> web.Response:
        return web.json_response({"requests": asked.total(), "distinct": len(asked)})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/v1/chat/completions", reply), web.get("/count", count)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve_plainly(float(sys.argv[1])))
