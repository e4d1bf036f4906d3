import json

import pytest
import tiny
import torch
from PIL import Image
from sources import ROOT

from ask import baseline
from ask.baseline import CLIP_BENCHMARK, BaselineError, check, compare
from ask.datasets.benchmarks import BENCHMARKS
from ask.published import published

PAPER = {
    name: published("6", "ViT-B/16 / Untrained CLIP", one.column) / 100 for name, one in BENCHMARKS.items()
}


def changed(points, *names):
    return PAPER | {name: PAPER[name] - points / 100 for name in names}


@pytest.mark.parametrize("backbone", CLIP_BENCHMARK)
def test_published_numbers_pass_for_every_backbone(backbone):
    paper = {
        name: published("6", f"{backbone} / Untrained CLIP", one.column) / 100
        for name, one in BENCHMARKS.items()
    }
    table = check(backbone, paper)
    assert (table["off"] < 1e-9).all() and len(table) == 12
    theirs = dict(zip(BENCHMARKS, CLIP_BENCHMARK[backbone], strict=True))
    check(backbone, {name: value / 100 for name, value in theirs.items() if value is not None})


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        (
            changed(60, "caltech101"),
            "caltech101 22.2 instead of 82.2; most are right, so look at the order",
        ),
        (changed(4, *BENCHMARKS), "look at the activation: OpenAI's weights need a -quickgelu architecture"),
        (changed(30, *BENCHMARKS), "look at the preprocessing"),
    ],
)
def test_a_mismatch_stops_with_its_likely_cause(measured, cause):
    with pytest.raises(BaselineError, match="untrained ViT-B/16 is not what was published") as stopped:
        check("ViT-B/16", measured)
    assert cause in str(stopped.value)


def test_a_few_benchmarks_are_enough_to_compare():
    assert list(compare("ViT-B/16", {"dtd": 0.45})["off"].round(2)) == [0.1]


def test_what_nobody_published_is_named():
    with pytest.raises(BaselineError, match="nobody published 'ViT-H/14'; known are ViT-B/32"):
        compare("ViT-H/14", PAPER)
    with pytest.raises(BaselineError, match="'mnist' is none of the benchmarks imagenet"):
        compare("ViT-B/16", {"mnist": 0.5})


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A world of three red pictures, two of them named right, and the params that name it."""
    for n in range(3):
        Image.new("RGB", (16, 16), "red").save(tmp_path / f"{n}.png")
    table = "".join(f"{n}.png,red,bench,tests\n" for n in range(3))
    (tmp_path / "manifest.csv").write_text("path,label,split,domain\n" + table)
    bench = {"name": "dtd", "comparable": True, "classes": ["red", "blue"], "templates": ["{}"]}
    told = [bench | {"paths": ["0.png", "1.png", "2.png"], "labels": [0, 0, 1]}]
    (tmp_path / "benchmarks.json").write_text(json.dumps(told))
    task = {"dataset": "paper", "domain": "tests", "criterion": "colour", "world": str(tmp_path)}
    (tmp_path / "profile.yaml").write_text(
        json.dumps({"tasks": {"tiny": task | {"pictures": str(tmp_path)}}})
    )
    monkeypatch.setenv("ASK_ROOT", str(ROOT))
    monkeypatch.setenv("ASK_PARAMS", str(tmp_path / "profile.yaml"))
    monkeypatch.setattr(baseline.clip, "load_backbone", lambda *_: tiny.backbone())
    monkeypatch.setattr(baseline, "embed_rows", lambda _, __, rows: torch.ones(len(rows), 2))
    return tmp_path


def test_the_command_measures_the_benchmarks_of_a_world_and_stops_at_a_mismatch(world, monkeypatch, capsys):
    monkeypatch.setattr(baseline.Dataset, "pixels", lambda *_: None)
    monkeypatch.setattr(
        baseline.evaluation, "zero_shot", lambda _, known, shown: {known[0]["name"]: len(shown) / 10}
    )
    assert baseline.main(["vit-b-16", "tiny"]) == 1
    assert "dtd 30.0 instead of 44.9" in capsys.readouterr().err
    monkeypatch.setattr(baseline.evaluation, "zero_shot", lambda *_: {"dtd": 0.447})
    assert baseline.main(["vit-b-16", "tiny"]) == 0
    assert "dtd" in capsys.readouterr().out


def test_a_world_without_published_benchmarks_is_refused(world, capsys):
    (world / "benchmarks.json").write_text("[]")
    assert baseline.main(["vit-b-16", "tiny"]) == 1
    assert "has no benchmark that was published" in capsys.readouterr().err
