"""The store of answers: append-only JSON lines that survive a kill, and the published snapshot made of them.

    <store>/judgments/<judge>/<criterion>/<identity>/  identity.json; <utc>-<uuid>.jsonl, one shard per writer
    <snapshot>/<judge>/<criterion>/                    <identity>.parquet and .json: what DVC versions

An answer is kept under the judge's identity, which is everything that determines it besides the two pictures
and their order, and is never changed. In reading order: `pair_key`, `Journal`,
`asking_lock`, `read_snapshot`, `publish`, `identities`, `stored_identities`.
"""

import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pandas as pd
from filelock import FileLock

from ask.digest import canonical, sha256
from ask.judges import Pair, Reply
from ask.judges.chat import read_reply
from ask.judges.table import from_columns, to_columns, write_json, write_table

SCHEMA = 1  # of a record; part of every key
NOTE = '{"in_flight":'  # how a line begins that is no answer
SYNC_EVERY = 1.0  # seconds

Answers = dict[tuple[str, str], Reply]  # by the hashes of the two pictures, in the order shown


class DamagedJournalWarning(UserWarning):
    """Lines inside a shard cannot be read; what they said will be asked again."""


def pair_key(
    identity: str,  # the judge's `digest`
    first: str,  # hashes of the two pictures, in the order shown
    second: str,
) -> str:
    """The key of an answer: judge's identity, the two pictures, whether they were swapped, and the schema."""
    images = sorted((first, second))
    return sha256({"identity": identity, "images": images, "schema": SCHEMA, "swapped": first > second})


class Journal:
    """The stored answers of one judge under one identity: reads every shard, appends to a shard of its own.

    Raises:
        ValueError: if the identity has no name or criterion that can be a folder.
    """

    def __init__(self, store: Path, identity: Mapping[str, Any]):
        self.identity = dict(identity)
        self.digest = sha256(identity)
        self.folder = store / "judgments" / _place(identity) / self.digest[:16]
        self._shard: Path | None = None
        self._file: FileIO | None = None

    def read(self) -> Answers:
        """Every stored answer; the first of two to the same question counts.

        Warns:
            DamagedJournalWarning: for each shard with unreadable lines, or lines of another identity. An
                unfinished last line is what a kill leaves behind; it is passed over in silence.
        """
        answers: Answers = {}
        for shard in sorted(self.folder.glob("*.jsonl")):
            damaged = []
            for number, line in enumerate(shard.read_bytes().split(b"\n")[:-1], start=1):
                try:
                    if not _is_note(line):
                        shown, reply = self._parse(line)
                        answers.setdefault(shown, reply)
                except (ValueError, KeyError, TypeError):
                    damaged.append(str(number))
            if damaged:
                lines = ", ".join(damaged)
                told = f"{shard.name} has damaged lines ({lines}); their pairs will be asked again"
                warnings.warn(told, DamagedJournalWarning, stacklevel=2)
        return answers

    def append(self, pairs: Sequence[Pair], replies: Sequence[Reply]) -> None:
        """Adds answers to this writer's shard; a kill loses none of them once this returns.

        They are on disk then too, or within a second inside ``with journal:``, which is for many small
        additions. If a write is interrupted, its complete lines stay and the torn one is cut before the next.
        """
        self._write(self._line(pair, reply) for pair, reply in zip(pairs, replies, strict=True))

    def note(self, in_flight: int) -> None:
        """Notes how many requests may be on their way from now on, which are paid for even if this is killed."""
        self._write([f"{NOTE}{in_flight}}}\n"])

    def doubtful(self) -> int:
        """At most so many requests were paid for without an answer that was stored, over all runs."""
        last = 0
        for shard in self.folder.glob("*.jsonl"):
            notes = [line for line in shard.read_bytes().split(b"\n")[:-1] if _is_note(line)]
            last += sum(json.loads(line)["in_flight"] for line in notes[-1:])
        return last

    def __enter__(self) -> Self:
        self._file = self._own_shard().open("r+b", buffering=0)
        self._synced = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def _write(self, lines: Iterable[str]) -> None:
        if self._file is None:
            with self:
                return self._write(lines)
        _seek_behind_last_line(self._file)
        left = memoryview("".join(lines).encode())
        while left:
            left = left[self._file.write(left) :]
        if time.monotonic() - self._synced >= SYNC_EVERY:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _line(self, pair: Pair, reply: Reply) -> str:
        key = pair_key(self.digest, pair.first, pair.second)
        told = ("body", "cost") if reply.body else Reply.__dataclass_fields__
        answer = {name: getattr(reply, name) for name in told}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return canonical({"key": key, "first": pair.first, "second": pair.second, "at": at, **answer}) + "\n"

    def _parse(self, line: bytes) -> tuple[tuple[str, str], Reply]:
        record = json.loads(line)
        first, second = record["first"], record["second"]
        if record["key"] != pair_key(self.digest, first, second):
            raise ValueError("the key is not that of the pair under this identity")
        if record.get("body"):
            return (first, second), read_reply(record["body"], record["cost"])
        return (first, second), Reply(
            **{name: record[name] for name in Reply.__dataclass_fields__ if name in record}
        )

    def _own_shard(self) -> Path:
        if self._shard is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.identity, self.folder / "identity.json")
            self._shard = self.folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex}.jsonl"
            self._shard.touch(exist_ok=False)
        return self._shard


def asking_lock(store: Path, identity: Mapping[str, Any]) -> FileLock:
    """Held while asking: a second process that wants the same judge and criterion waits for the first."""
    folder = store / "judgments" / _place(identity)
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".lock")


def read_snapshot(folder: Path, identity: Mapping[str, Any]) -> Answers:
    """The published answers under an identity; none if nothing was published."""
    path = folder / _place(identity) / f"{sha256(identity)[:16]}.parquet"
    if not path.is_file():
        return {}
    table = pd.read_parquet(path)
    shown = zip(table["first_hash"], table["second_hash"], strict=True)
    return dict(zip(shown, from_columns(table), strict=True))


def publish(
    store: Path,
    folder: Path,
    identities: Sequence[Mapping[str, Any]] | None = None,  # all that the store holds, if not given
) -> list[Path]:  # the tables written
    """Merges the store into a snapshot: one sorted table and one JSON file per identity.

    An answer that was published before stays as it was, so snapshots of two people can be merged one after
    the other.
    """
    if identities is None:
        identities = list(stored_identities(store))
    written = []
    for identity in identities:
        answers = Journal(store, identity).read() | read_snapshot(folder, identity)
        table = to_columns(list(answers.values()))
        table.insert(0, "first_hash", [first for first, _ in answers])
        table.insert(1, "second_hash", [second for _, second in answers])
        path = folder / _place(identity) / f"{sha256(identity)[:16]}.parquet"
        write_table(table.sort_values(["first_hash", "second_hash"], ignore_index=True), path)
        counts = {"judgments": len(table), "cost": int(table["cost"].sum()), "schema": SCHEMA}
        write_json({"identity": identity, **counts}, path.with_suffix(".json"))
        written.append(path)
    return written


def identities(
    store: Path,
    published: Path | None,  # a snapshot
    *,
    name: str,  # of a judge
    criterion: str,
) -> list[dict[str, Any]]:
    """The identities under which a judge's answers to a criterion are stored or published."""
    place = _place({"name": name, "criterion": criterion})
    stored = [
        json.loads(path.read_text()) for path in sorted((store / "judgments" / place).glob("*/identity.json"))
    ]
    snapshots = sorted((published / place).glob("*.json")) if published else []
    return stored + [json.loads(path.read_text())["identity"] for path in snapshots]


def stored_identities(store: Path) -> Iterator[dict[str, Any]]:
    """Every identity that a store holds answers of."""
    for path in sorted(store.glob("judgments/*/*/*/identity.json")):
        yield json.loads(path.read_text())


def _place(identity: Mapping[str, Any]) -> Path:
    """<judge>/<criterion> as plain folder names."""
    names = [
        re.sub(r"[^a-z0-9.-]+", "-", str(identity[part]).lower()).strip("-.")
        for part in ("name", "criterion")
    ]
    if not all(names):
        raise ValueError(
            f"a judge needs a name and a criterion with letters or digits, but has {dict(identity)}"
        )
    return Path(*names)


def _is_note(line: bytes) -> bool:
    return line.startswith(NOTE.encode())


def _seek_behind_last_line(file) -> None:
    """Puts an open shard's position behind its last complete line and cuts what follows."""
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
