import pytest

from ask.elicitation import elicit, export
from ask.journal import publish
from ask.judges import Computed, JudgeError, Pair, Reply
from ask.judges.replay import Replay
from ask.judges.table import write_json

PAIRS = [Pair("a", "b", 0, 1), Pair("a", "c", 0, 2), Pair("b", "c", 1, 2)]


class Constant(Computed):
    batch_size = 2

    def __init__(self, name="constant"):
        self.identity = {"kind": "constant", "name": name, "criterion": "any"}

    def answer(self, pairs):
        return [Reply({"7": 0.5}, "7", "here", 3, 4)] * len(pairs)


@pytest.fixture
def exported(tmp_path):
    export(elicit(Constant(), PAIRS, store=tmp_path / "store"), tmp_path / "out")
    publish(tmp_path / "store", tmp_path / "snapshot")
    return tmp_path


@pytest.mark.parametrize("place", ["out", "snapshot/constant/any"])
def test_it_answers_as_the_judge_did_and_under_its_identity(exported, place):
    replay = Replay(exported / place)
    assert replay.identity == Constant().identity
    assert replay.answer(PAIRS[::-1]) == Constant().answer(PAIRS)


def test_a_missing_pair_is_an_error_that_counts_and_advises(exported):
    with pytest.raises(JudgeError) as refusal:
        Replay(exported / "out").answer([*PAIRS, Pair("b", "a", 1, 0), Pair("a", "d", 0, 3)])
    assert str(refusal.value) == (
        f"2 of 5 pairs are not among the 3 judgments in {exported / 'out'}; "
        "ask judge constant itself, or plan only pairs that it has scored"
    )


def test_replayed_answers_count_as_the_judges_own(exported):
    elicit(Replay(exported / "out"), PAIRS, store=exported / "other")
    assert elicit(Constant(), PAIRS, store=exported / "other").asked == 0


def test_a_folder_without_judgments_or_with_those_of_two_is_refused(exported):
    with pytest.raises(JudgeError, match=r"holds no judgments; give a folder with a .parquet and a .json"):
        Replay(exported / "nowhere")
    out = exported / "out"
    (out / "more.parquet").write_bytes((out / "judgments.parquet").read_bytes())
    write_json({"identity": Constant("another").identity}, out / "more.json")
    with pytest.raises(JudgeError, match="holds judgments of several judges or settings"):
        Replay(out)
