import hashlib
import os
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ask import elicitation
from ask.elicitation import (
    GroupError,
    dense_pairs,
    elicit,
    estimate,
    export,
    random_groups,
    stratified_groups,
    swapped,
)
from ask.journal import asking_lock, publish
from ask.judges import Computed, JudgeError, Pair, Reply

PAPER = [f"breed-{row // 40:02}" for row in range(1000)]  # 25 classes of 40 images


def named(rows: int) -> list[str]:
    return [hashlib.sha256(str(row).encode()).hexdigest() for row in range(rows)]


class Recorder(Computed):
    """Answers from the hashes and remembers what it was asked."""

    def __init__(self, name="recorder", batch_size=3, breaks_after=None):
        self.identity = {"kind": "test", "name": name, "criterion": "any"}
        self.batch_size, self.breaks_after = batch_size, breaks_after
        self.asked: list[Pair] = []

    def answer(self, pairs):
        if self.breaks_after is not None and len(self.asked) >= self.breaks_after:
            raise KeyboardInterrupt
        self.asked += pairs
        return [Reply({str(1 + int(pair.first[0], 16) % 9): 0.5}, "5", "test", 1, 2) for pair in pairs]


@pytest.fixture(scope="module")
def paper_groups():
    return stratified_groups(PAPER, range(1000), groups=93, seed=0)


def test_the_papers_groups_make_three_passes_of_31_without_a_repeated_image(paper_groups):
    assert paper_groups.shape == (93, 32)
    for start in (0, 31, 62):
        assert len(np.unique(paper_groups[start : start + 31])) == 992


def test_a_group_is_eight_classes_of_four_images(paper_groups):
    for group in paper_groups:
        counts = pd.Series([PAPER[row] for row in group]).value_counts()
        assert counts.tolist() == [4] * 8


def test_the_papers_budgets_come_out(paper_groups):
    budgets = [len(dense_pairs(paper_groups[:g], named(1000))) for g in (31, 62, 93)]
    assert budgets[0] == 15_376
    assert budgets[1:] == pytest.approx([30_174, 44_450], rel=0.005)


def test_fewer_groups_are_the_first_of_more(paper_groups):
    for fewer in (1, 31, 62):
        shorter = stratified_groups(PAPER, range(1000), groups=fewer, seed=0)
        assert np.array_equal(shorter, paper_groups[:fewer])
    assert not np.array_equal(stratified_groups(PAPER, range(1000), groups=31, seed=1), paper_groups[:31])


@pytest.mark.parametrize(("classes", "each", "per_pass"), [(24, 24, 18), (16, 20, 10), (8, 7, 1), (11, 8, 2)])
def test_a_pass_uses_all_the_images_it_can(classes, each, per_pass):
    labels = [f"c{n:02}" for n in range(classes) for _ in range(each)]
    groups = stratified_groups(labels, range(len(labels)), groups=per_pass + 1, seed=0)
    assert len(np.unique(groups[:per_pass])) == 32 * per_pass
    assert len(np.unique(groups)) < 32 * (per_pass + 1)


def test_rows_are_those_given_not_positions():
    rows = np.arange(64) * 10 + 7
    groups = stratified_groups([f"c{n % 8}" for n in range(64)], rows, groups=2, seed=0)
    assert sorted(groups.ravel()) == sorted(rows)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["a"] * 9 + ["X"] * 3, "class X has 3 images, 4 asked; add some or leave it out"),
        (["a"] * 9, "groups of 2 classes were asked for, but there are 1; ask for fewer"),
    ],
)
def test_groups_that_cannot_be_stratified_say_why(labels, told):
    with pytest.raises(GroupError) as refusal:
        stratified_groups(labels, range(len(labels)), groups=1, seed=0, classes=2)
    assert str(refusal.value) == told


def test_without_labels_groups_are_random_in_passes():
    rows = range(100, 200)
    groups = random_groups(rows, groups=5, seed=0)
    assert groups.shape == (5, 32)
    assert len(np.unique(groups[:3])) == 96
    assert set(groups.ravel()) <= set(rows)
    assert np.array_equal(random_groups(rows, groups=2, seed=0), groups[:2])
    with pytest.raises(GroupError, match="groups of 32 images were asked for, but there are 20"):
        random_groups(range(20), groups=1, seed=0)


def test_pairs_are_the_distinct_unordered_ones_in_canonical_order():
    groups, hashes = [[0, 1, 2], [2, 1, 3]], named(4)
    pairs = dense_pairs(groups, hashes)
    slow = {frozenset(pair) for group in groups for pair in combinations(group, 2)}
    assert {frozenset((pair.first_row, pair.second_row)) for pair in pairs} == slow
    assert len(pairs) == 5
    assert all(pair.first < pair.second and not pair.swapped for pair in pairs)
    assert all(
        (hashes[pair.first_row], hashes[pair.second_row]) == (pair.first, pair.second) for pair in pairs
    )
    assert all(pair.swapped for pair in swapped(pairs))
    assert swapped(swapped(pairs)) == pairs


def test_the_same_picture_under_two_names_is_asked_about_once_and_never_with_itself():
    assert dense_pairs([[0, 1, 2]], ["a", "b", "a"]) == [Pair("a", "b", 0, 1)]


@pytest.mark.parametrize(
    ("prices", "latency", "speed", "cost", "hours"),
    [  # ASK, Table 15: Qwen3.5-397B, GPT-5.6 Sol, Gemma 4 12B
        ((0.39, 2.34), 1.11, 61, (5.4, 12.3), 1.4),
        ((2.00, 10.00), 3.58, 49, (27.6, 63.1), 4.5),
        ((0.05, 0.15), 0.75, 14, (0.7, 1.6), 1.1),
    ],
)
def test_the_papers_cost_and_time_estimates_come_out(prices, latency, speed, cost, hours):
    low, high = (
        estimate(
            44_450,
            input_tokens=tokens,
            output_tokens=2,
            input_price=prices[0],
            output_price=prices[1],
            latency=latency,
            speed=speed,
            concurrency=10,
        )
        for tokens in (300, 700)
    )
    assert (round(low.cost, 1), round(high.cost, 1)) == cost
    assert round(low.seconds / 3600, 1) == hours
    assert (low.pairs, low.tokens) == (44_450, 44_450 * 302)


PAIRS = dense_pairs([range(5)], named(5))


def test_every_pair_is_asked_once_and_then_never_again(tmp_path):
    judge, seen = Recorder(), []
    first = elicit(judge, PAIRS, store=tmp_path, progress=lambda p: seen.append((p.done, p.total)))
    assert (first.asked, first.reused) == (10, 0)
    assert seen == [(3, 10), (6, 10), (9, 10), (10, 10)]
    again = elicit(judge, PAIRS[::-1], store=tmp_path)
    assert (again.asked, again.reused) == (0, 10)
    assert judge.asked == PAIRS
    pd.testing.assert_frame_equal(again.judgments, first.judgments)


def test_the_table_has_a_row_per_pair_sorted_by_its_hashes(tmp_path):
    table = elicit(Recorder(), PAIRS, store=tmp_path).judgments
    assert table[["first_hash", "second_hash"]].values.tolist() == sorted([p.first, p.second] for p in PAIRS)
    row = table.iloc[3]
    digit = 1 + int(row["first_hash"][0], 16) % 9
    assert (row["score"], row["method"], row["mass"], row["entropy"]) == (digit, "expected", 0.5, 0)
    assert row[f"p{digit}"] == 0.5
    assert list(table.columns[-4:]) == ["reply", "provider", "tokens", "cost"]


def test_a_pair_wanted_twice_is_asked_once_and_the_other_order_is_another_question(tmp_path):
    judge = Recorder()
    assert elicit(judge, [*PAIRS, *PAIRS], store=tmp_path).asked == 10
    assert elicit(judge, swapped(PAIRS), store=tmp_path).asked == 10


def test_a_larger_plan_asks_only_for_what_is_new(tmp_path):
    judge = Recorder()
    elicit(judge, PAIRS[:4], store=tmp_path)
    more = elicit(judge, PAIRS, store=tmp_path)
    assert (more.asked, more.reused) == (6, 4)


def test_published_answers_are_not_asked_again(tmp_path):
    elicit(Recorder(), PAIRS, store=tmp_path / "store")
    publish(tmp_path / "store", tmp_path / "published")
    fresh = Recorder()
    found = elicit(fresh, PAIRS, store=tmp_path / "fresh", published=tmp_path / "published")
    assert (found.asked, fresh.asked) == (0, [])
    assert not (tmp_path / "fresh").exists()


def test_an_interrupt_keeps_every_finished_batch(tmp_path):
    broken = Recorder(breaks_after=6)
    with pytest.raises(KeyboardInterrupt):
        elicit(broken, PAIRS, store=tmp_path)
    resumed = Recorder()
    assert elicit(resumed, PAIRS, store=tmp_path).asked == 4
    assert resumed.asked == PAIRS[6:]


VICTIM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_elicitation import PAIRS, Recorder
from ask.elicitation import elicit

class Slow(Recorder):
    def answer(self, pairs):
        if len(self.asked) >= 6:
            print("deep in the third batch", flush=True)
            time.sleep(600)
        return super().answer(pairs)

elicit(Slow(), PAIRS, store=Path(sys.argv[1]))
"""


def test_a_kill_costs_only_the_batch_in_flight(tmp_path):
    root, here = Path(__file__).parents[1], Path(__file__).parent
    command = [sys.executable, "-c", VICTIM, str(tmp_path), str(here)]
    environment = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as victim:
        assert victim.stdout.readline() == "deep in the third batch\n"
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    resumed = Recorder()
    found = elicit(resumed, PAIRS, store=tmp_path)  # the killed process's lock is gone with it
    assert (found.asked, found.reused) == (4, 6)
    assert resumed.asked == PAIRS[6:]


def test_what_another_process_bought_while_this_one_waited_is_not_asked_again(tmp_path, monkeypatch):
    def other_buys_first(store, identity):
        monkeypatch.setattr(elicitation, "asking_lock", asking_lock)
        elicit(Recorder(), PAIRS[:7], store=tmp_path)
        return asking_lock(store, identity)

    monkeypatch.setattr(elicitation, "asking_lock", other_buys_first)
    waiting = Recorder()
    assert elicit(waiting, PAIRS, store=tmp_path).asked == 3
    assert waiting.asked == PAIRS[7:]


def test_a_judge_that_miscounts_is_stopped(tmp_path):
    judge = Recorder()
    judge.answer = lambda pairs: []
    with pytest.raises(JudgeError, match="judge recorder gave 0 replies to 3 pairs"):
        elicit(judge, PAIRS, store=tmp_path)


def test_a_garbled_reply_is_kept_counted_and_not_asked_again(tmp_path):
    judge = Recorder(batch_size=10)
    judge.answer = lambda pairs: [Reply({}, "no idea", "test")] * 9 + [Reply({}, "4", "test")]
    table = elicit(judge, PAIRS, store=tmp_path).judgments
    assert table["method"].value_counts().to_dict() == {"none": 9, "parsed": 1}
    assert table["score"].count() == 1
    assert elicit(Recorder(), PAIRS, store=tmp_path).asked == 0


def test_an_export_is_the_same_bytes_however_it_came_about(tmp_path):
    export(elicit(Recorder(), PAIRS, store=tmp_path / "one"), tmp_path / "a")
    elicit(Recorder(batch_size=1), PAIRS[5:], store=tmp_path / "two")
    export(elicit(Recorder(), PAIRS[::-1], store=tmp_path / "two"), tmp_path / "b")
    for name in ("judgments.parquet", "judgments.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["judgments.json", "judgments.parquet"]
