"""One HTTP connection pool to one chat-completions endpoint; what failed on the way is named, not raised raw.

The key is read from the environment when the pool opens. It is in no argument, attribute, log or error, and is
blotted out of whatever a server sends back.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from ask.judges import JudgeError

MOST_BYTES = 4 << 20  # of an answer; a chat completion with log-probabilities has a few thousand


@dataclass(frozen=True)
class Received:
    """What a server answered, whatever it was."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Timeouts:
    """Seconds."""

    connect: float = 10.0
    read: float = 120.0  # long: a request that is given up may be billed all the same


class TransportError(Exception):
    """A request got no whole answer."""

    def __init__(self, kind: str, *, doubtful: bool = False, fatal: bool = False):
        super().__init__(kind)
        self.kind = kind
        self.doubtful = doubtful  # it may have been computed and billed
        self.fatal = fatal  # trying again is of no use


@dataclass
class Transport:
    """``async with Transport(...) as transport`` inside the loop that uses it."""

    base_url: str  # without /chat/completions
    key_variable: str | None  # the environment variable that holds the key; None: the server wants none
    connections: int
    timeouts: Timeouts = field(default_factory=Timeouts)

    async def __aenter__(self) -> Self:
        key = read_key(self.key_variable)
        self._blot = key
        self._session = aiohttp.ClientSession(
            headers={"Content-Type": "application/json"}
            | ({"Authorization": f"Bearer {key}"} if key else {}),
            connector=aiohttp.TCPConnector(limit=self.connections),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self.timeouts.connect, sock_read=self.timeouts.read
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(
        self,
        body: bytes,  # JSON
    ) -> Received:
        """Sends one request and reads the whole answer.

        Raises:
            TransportError: if no whole answer came.
        """
        sent = False
        try:
            # A redirect is an answer like any other: following it could hand the key to somebody else.
            request = self._session.post(
                f"{self.base_url.rstrip('/')}/chat/completions", data=body, allow_redirects=False
            )
            async with request as answer:
                sent = True
                return Received(answer.status, answer.headers, self._readable(await _whole(answer)))
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError):
            raise TransportError("tls", fatal=True) from None
        except aiohttp.ClientConnectorError:
            raise TransportError("connect") from None
        except TimeoutError as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise TransportError("connect" if connecting else "timeout", doubtful=not connecting) from None
        except (aiohttp.ClientError, OSError):
            raise TransportError("cut" if sent else "reset", doubtful=True) from None

    def _readable(self, data: bytes) -> str:
        text = data.decode("utf-8", errors="replace")
        return text.replace(self._blot, "***") if self._blot else text


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_any():
        data += piece
        if len(data) > MOST_BYTES:
            raise TransportError("too_large", doubtful=True)
    return bytes(data)


def read_key(variable: str | None) -> str | None:
    """The key in an environment variable.

    Raises:
        JudgeError: if the variable is not set, or holds what no header can carry.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise JudgeError(
            f"the environment variable {variable} holds no key; export {variable}=... and run again"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise JudgeError(f"the key in {variable} has characters that no key has; copy it again")
    return key


def host(base_url: str) -> str:
    """Host, port and path of an endpoint: what is said of it in a judge's identity.

    Raises:
        JudgeError: if it is no plain http or https address, or carries a password.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise JudgeError(f"base_url must be like https://openrouter.ai/api/v1, but is {base_url!r}")
    if parts.username or parts.password:
        raise JudgeError("base_url holds a name or password; put the key into the environment instead")
    return parts.netloc.lower() + parts.path.rstrip("/")
