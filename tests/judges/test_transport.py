import asyncio
import socket

import pytest
from server import Server, error

from ask.judges import JudgeError
from ask.judges.transport import MOST_BYTES, Timeouts, Transport, TransportError, host, read_key

DEFAULT = Timeouts()
KEY = "sk-very-secret-1234"


def post(url, body=b"{}", *, key=None, timeouts=DEFAULT):
    async def run():
        async with Transport(url, key, 2, timeouts) as transport:
            return await transport.post(body)

    return asyncio.run(run())


def echo(number, body):
    return body


REQUEST = b'{"messages": [{"content": []}], "asked": "\\u00e4"}'


def test_a_body_goes_there_and_an_answer_comes_back():
    with Server(echo) as server:
        received = post(server.url, REQUEST)
    assert (received.status, received.text) == (200, '{"messages": [{"content": []}], "asked": "\\u00e4"}')
    assert "Authorization" not in server.headers[0]


def test_the_key_comes_from_the_environment_and_is_blotted_out_of_answers(monkeypatch):
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    with Server(lambda *_: error(401, f"the key {KEY} is wrong")) as server:
        received = post(server.url, REQUEST, key="SOME_KEY")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in received.text and "the key *** is wrong" in received.text


def test_a_missing_or_broken_key_is_named_but_not_shown(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(JudgeError, match="the environment variable SOME_KEY holds no key"):
        read_key("SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "sk-a b")
    with pytest.raises(JudgeError, match="the key in SOME_KEY has characters that no key has") as raised:
        read_key("SOME_KEY")
    assert "sk-a" not in str(raised.value)


def test_a_redirect_is_an_answer_and_takes_the_key_nowhere(monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    with Server() as elsewhere, Server(lambda *_: (307, {"Location": elsewhere.url}, "")) as server:
        assert post(server.url, REQUEST, key="SOME_KEY").status == 307
        assert elsewhere.requests == []


def test_nobody_there_costs_nothing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(TransportError) as raised:
        post(url)
    assert (raised.value.kind, raised.value.doubtful, raised.value.fatal) == ("connect", False, False)


def test_an_answer_that_does_not_come_may_have_been_paid_for():
    with Server(echo, delay=5) as server, pytest.raises(TransportError) as raised:
        post(server.url, REQUEST, timeouts=Timeouts(read=0.1))
    assert (raised.value.kind, raised.value.doubtful) == ("timeout", True)


def test_a_connection_that_breaks_may_have_been_paid_for():
    def broken(*_):
        raise ConnectionError

    with Server(broken) as server, pytest.raises(TransportError) as raised:
        post(server.url, REQUEST)
    assert raised.value.doubtful and not raised.value.fatal


def test_an_answer_without_end_is_not_read_to_its_end():
    with (
        Server(lambda *_: "x" * (MOST_BYTES + 1)) as server,
        pytest.raises(TransportError, match="too_large"),
    ):
        post(server.url, REQUEST)


def test_an_endpoint_is_known_by_host_port_and_path():
    assert host("https://OpenRouter.ai/api/v1/") == "openrouter.ai/api/v1"
    assert host("http://localhost:8000/v1") == "localhost:8000/v1"


@pytest.mark.parametrize("url", ["openrouter.ai/api/v1", "ftp://a/b", "https://", "https://a/v1?key=x"])
def test_another_address_is_refused(url):
    with pytest.raises(JudgeError, match=r"base_url must be like https://openrouter.ai/api/v1"):
        host(url)


def test_a_password_in_the_address_is_refused_and_not_shown():
    with pytest.raises(JudgeError, match="base_url holds a name or password") as raised:
        host("https://me:hunter2@example.org/v1")
    assert "hunter2" not in str(raised.value)
