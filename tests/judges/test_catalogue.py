import numpy as np
import pandas as pd
import pytest

from ask.datasets import factors
from ask.datasets.pictures import open_pictures
from ask.elicitation import elicit, export
from ask.judges import JudgeError, Pair
from ask.judges.catalogue import open_judge
from ask.judges.pixel import CRITERION, Pixel
from ask.judges.replay import Replay
from ask.judges.simulated import Simulated


@pytest.fixture
def opened(tmp_path):
    rng = np.random.default_rng(0)
    manifest = pd.concat([factors.species(rng, 4), factors.views(rng, 4)], axis=1).assign(path="a.png")

    def open_entry(entry, criterion="breed"):
        pictures = open_pictures(tmp_path)
        return open_judge("one", entry, criterion=criterion, manifest=manifest, pictures=pictures, seed=0)

    return open_entry


def test_every_kind_opens(opened, tmp_path):
    simulated = opened({"kind": "simulated", "noise": 0.2})
    assert isinstance(simulated, Simulated)
    assert isinstance(opened({"kind": "pixel"}, CRITERION), Pixel)
    export(elicit(simulated, [Pair("0a" * 32, "0b" * 32, 0, 1)], store=tmp_path), tmp_path / "out")
    assert isinstance(opened({"kind": "replay", "folder": str(tmp_path / "out")}), Replay)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            {"kind": "oracle"},
            "judge one has the unknown kind 'oracle'; known: simulated, pixel, replay, hosted, local",
        ),
        ({}, "judge one has the unknown kind None; known: simulated, pixel, replay, hosted, local"),
        (
            {"kind": "replay"},
            "judge one replays stored judgments and needs their folder; add it to its entry",
        ),
    ],
)
def test_an_entry_that_makes_no_judge_says_why(opened, entry, told):
    with pytest.raises(JudgeError) as refusal:
        opened(entry)
    assert str(refusal.value) == told
