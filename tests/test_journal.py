import json
import multiprocessing
import time

import pandas as pd
import pytest

from ask.digest import sha256
from ask.journal import (
    DamagedJournalWarning,
    Journal,
    asking_lock,
    identities,
    pair_key,
    publish,
    read_snapshot,
)
from ask.judges import Pair, Reply

IDENTITY = {"kind": "test", "name": "Some Judge", "criterion": "colour & light", "seed": 1}
PAIRS = [Pair("a", "b", 0, 1), Pair("b", "a", 1, 0), Pair("a", "c", 0, 2)]
REPLIES = [Reply({"5": 0.5}, "5", "x", 2, 3), Reply({}, "zwölf\u2028\n", "y"), Reply({"1": 1.0}, "1", "x")]
ANSWERS = {(pair.first, pair.second): reply for pair, reply in zip(PAIRS, REPLIES, strict=True)}


def shards(journal):
    return sorted(journal.folder.glob("*.jsonl"))


def test_what_was_appended_is_read_in_this_and_in_another_process(tmp_path):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS[:1], REPLIES[:1])
    journal.append(PAIRS[1:], REPLIES[1:])
    assert journal.read() == ANSWERS
    assert Journal(tmp_path, IDENTITY).read() == ANSWERS
    assert len(shards(journal)) == 1


def test_nothing_is_created_by_looking(tmp_path):
    assert Journal(tmp_path / "store", IDENTITY).read() == {}
    assert not (tmp_path / "store").exists()


def test_the_folder_names_judge_criterion_and_identity(tmp_path):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS, REPLIES)
    place = tmp_path / "judgments" / "some-judge" / "colour-light" / sha256(IDENTITY)[:16]
    assert json.loads((place / "identity.json").read_text()) == IDENTITY
    assert [path.suffix for path in shards(journal)] == [".jsonl"]
    with pytest.raises(ValueError, match="a judge needs a name and a criterion with letters or digits"):
        Journal(tmp_path, IDENTITY | {"name": "../.."})


def test_another_identity_shares_nothing(tmp_path):
    Journal(tmp_path, IDENTITY).append(PAIRS, REPLIES)
    assert Journal(tmp_path, IDENTITY | {"seed": 2}).read() == {}


def test_the_key_depends_on_identity_pictures_and_order_and_on_nothing_else():
    identity = sha256(IDENTITY)
    assert identity == sha256(dict(reversed(IDENTITY.items())))
    keys = [pair_key(identity, "a", "b"), pair_key(identity, "b", "a"), pair_key(identity, "a", "c")]
    keys.append(pair_key(sha256(IDENTITY | {"seed": 2}), "a", "b"))
    assert len(set(keys)) == 4
    assert pair_key(identity, "a", "b") == keys[0]


def test_each_writer_has_its_own_shard_and_all_are_read(tmp_path):
    for pair, reply in zip(PAIRS, REPLIES, strict=True):
        Journal(tmp_path, IDENTITY).append([pair], [reply])
    journal = Journal(tmp_path, IDENTITY)
    assert len(shards(journal)) == 3
    assert journal.read() == ANSWERS


def test_the_first_answer_to_a_question_stays(tmp_path):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS[:1], REPLIES[:1])
    journal.append(PAIRS[:1], REPLIES[2:])
    assert journal.read() == {("a", "b"): REPLIES[0]}


def test_a_line_torn_by_a_kill_is_passed_over_in_silence_at_every_length(tmp_path):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS, REPLIES)
    (shard,) = shards(journal)
    whole = shard.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole) - len(lines[-1]), len(whole)):
        shard.write_bytes(whole[:cut])
        assert len(journal.read()) == 2


def test_a_write_that_broke_off_is_cut_before_the_next(tmp_path):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS[:2], REPLIES[:2])
    (shard,) = shards(journal)
    shard.write_bytes(shard.read_bytes()[:-20])
    journal.append(PAIRS[2:], REPLIES[2:])
    assert journal.read() == {("a", "b"): REPLIES[0], ("a", "c"): REPLIES[2]}
    assert shard.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[:30] + b"\xff\xfe" + line[32:],
        lambda line: b"[1, 2]",
        lambda line: b"",
        lambda line: line.replace(b'"first":"b"', b'"first":"q"'),  # still JSON, but not what was asked
    ],
)
def test_damage_inside_is_reported_and_costs_only_its_own_line(tmp_path, damage):
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS, REPLIES)
    (shard,) = shards(journal)
    lines = shard.read_bytes().split(b"\n")
    lines[1] = damage(lines[1])
    shard.write_bytes(b"\n".join(lines))
    with pytest.warns(DamagedJournalWarning) as told:
        found = journal.read()
    assert found == {key: reply for key, reply in ANSWERS.items() if key != ("b", "a")}
    assert str(told[0].message) == f"{shard.name} has damaged lines (2); their pairs will be asked again"


def hold(store, started):
    with asking_lock(store, IDENTITY):
        started.set()
        time.sleep(0.5)
        Journal(store, IDENTITY).append(PAIRS, REPLIES)


def test_a_second_process_waits_for_the_first_and_then_sees_its_answers(tmp_path):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    first = context.Process(target=hold, args=(tmp_path, started))
    first.start()
    assert started.wait(60)
    with asking_lock(tmp_path, IDENTITY | {"seed": 2}):  # the judge's and criterion's, not the seed's
        assert Journal(tmp_path, IDENTITY).read() == ANSWERS
    first.join()
    assert first.exitcode == 0


def test_a_snapshot_holds_the_same_answers_in_the_same_bytes_whoever_wrote_them(tmp_path):
    Journal(tmp_path / "one", IDENTITY).append(PAIRS, REPLIES)
    for pair, reply in zip(PAIRS[::-1], REPLIES[::-1], strict=True):
        Journal(tmp_path / "two", IDENTITY).append([pair], [reply])
    (one,) = publish(tmp_path / "one", tmp_path / "snapshot-one")
    (two,) = publish(tmp_path / "two", tmp_path / "snapshot-two")
    assert one.read_bytes() == two.read_bytes()
    assert read_snapshot(tmp_path / "snapshot-one", IDENTITY) == ANSWERS
    assert read_snapshot(tmp_path / "snapshot-one", IDENTITY | {"seed": 2}) == {}
    told = json.loads(one.with_suffix(".json").read_text())
    assert told == {"identity": IDENTITY, "judgments": 3, "cost": 3, "schema": 1}
    hashes = pd.read_parquet(one)[["first_hash", "second_hash"]].values.tolist()
    assert hashes == [["a", "b"], ["a", "c"], ["b", "a"]]


def test_two_people_can_publish_into_one_snapshot_and_what_is_published_stays(tmp_path):
    Journal(tmp_path / "one", IDENTITY).append(PAIRS[:2], REPLIES[:2])
    Journal(tmp_path / "two", IDENTITY).append(PAIRS[1:], REPLIES[:2])
    publish(tmp_path / "one", tmp_path / "snapshot")
    publish(tmp_path / "two", tmp_path / "snapshot")
    assert read_snapshot(tmp_path / "snapshot", IDENTITY) == {
        ("a", "b"): REPLIES[0],
        ("b", "a"): REPLIES[1],
        ("a", "c"): REPLIES[1],
    }


def test_a_chosen_part_of_the_store_is_published(tmp_path):
    trial = IDENTITY | {"seed": 9}
    for identity in (IDENTITY, trial):
        Journal(tmp_path, identity).append(PAIRS, REPLIES)
    assert len(publish(tmp_path, tmp_path / "chosen", [IDENTITY])) == 1
    assert len(publish(tmp_path, tmp_path / "all")) == 2


def test_many_small_additions_share_one_open_file_and_all_are_readable_at_once(tmp_path):
    with Journal(tmp_path, IDENTITY) as journal:
        for pair, reply in zip(PAIRS, REPLIES, strict=True):
            journal.append([pair], [reply])
            assert Journal(tmp_path, IDENTITY).read()[pair.first, pair.second] == reply
    assert len(shards(journal)) == 1


def test_what_may_have_been_paid_in_vain_is_the_last_note_of_every_writer(tmp_path):
    with Journal(tmp_path, IDENTITY) as killed:
        killed.note(64)
        killed.append(PAIRS[:1], REPLIES[:1])
    with Journal(tmp_path, IDENTITY) as ended:
        ended.note(64)
        ended.append(PAIRS[1:], REPLIES[1:])
        ended.note(2)
    assert ended.doubtful() == 66
    assert ended.read() == ANSWERS


BODY = {"choices": [{"message": {"content": "7"}}], "provider": "x", "usage": {"prompt_tokens": 3}}


def test_what_a_server_said_is_stored_as_it_is_and_read_anew(tmp_path):
    bought = Reply({}, "7", "x", 3, 9, "", BODY)
    journal = Journal(tmp_path, IDENTITY)
    journal.append(PAIRS[:2], [bought, Reply({}, "", "", cost=0, reason="bad_image")])
    assert journal.read() == {("a", "b"): bought, ("b", "a"): Reply({}, "", "", reason="bad_image")}
    publish(tmp_path, tmp_path / "snapshot")
    assert read_snapshot(tmp_path / "snapshot", IDENTITY) == journal.read()


def test_the_identities_of_a_judge_and_criterion_are_found_in_store_and_snapshot(tmp_path):
    Journal(tmp_path / "store", IDENTITY).append(PAIRS, REPLIES)
    Journal(tmp_path / "other", IDENTITY | {"seed": 2}).append(PAIRS, REPLIES)
    publish(tmp_path / "other", tmp_path / "snapshot")
    found = identities(
        tmp_path / "store", tmp_path / "snapshot", name="Some Judge", criterion="colour & light"
    )
    assert [one["seed"] for one in found] == [1, 2]
    assert identities(tmp_path / "store", None, name="Some Judge", criterion="else") == []
