"""Retrieval against annotations, on the small samples of the four datasets and a tiny CLIP."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from sources import ROOT

from ask import annotated
from ask.adapter import save_adapter
from ask.annotated import compared, measure, query_sets
from ask.clip import Backbone
from ask.datasets.members import Members
from ask.datasets.recognise import recognise
from ask.datasets.source import LayoutError
from ask.lora import adapt

FORMATS = Path(__file__).parent / "formats"
FOLDERS = {
    "cub": FORMATS / "cub",
    "pascal3d": FORMATS / "PASCAL3D+_release1.1",
    "cocostuff": FORMATS / "cocostuff",
    "ap10k": FORMATS / "ap10k",
}


@pytest.fixture(scope="module")
def sets():
    return query_sets(FOLDERS)


@pytest.fixture(scope="module")
def students():
    return {"untrained": tiny.backbone(seed=0), "other": tiny.backbone(seed=1)}


def test_every_criterion_of_the_four_datasets_is_asked(sets):
    assert {one.name: one.published for one in sets} == {
        "wing colour": 4985,
        "bill shape": 5266,
        "breast pattern": 5001,
        "car viewpoint": 86,
        "background": 3701,
        "pose": 517,
    }


def by_hand(one, encoder: Backbone, cut: int) -> list[float]:
    """nDCG with loops: every query ranks its own gallery by cosine."""
    pictures, kept = Members(one.source.root), one.annotated
    paths = one.source.table["path"].to_numpy()[kept.rows]
    with torch.no_grad():
        pixels = torch.stack([encoder.preprocess(pictures.load(path)) for path in paths])
        features = encoder.model.encode_image(pixels)
    found = []
    for q in range(len(paths)):
        gallery = [i for i in range(len(paths)) if i != q and kept.eligible[q, i]]
        closeness = {i: float(torch.cosine_similarity(features[q], features[i], dim=0)) for i in gallery}
        gains = [kept.relevance[q, i] for i in sorted(gallery, key=lambda i: -closeness[i])]
        best = sorted(gains, reverse=True)
        if any(gains):
            seen, ideal = (
                sum(gain / math.log2(rank + 2) for rank, gain in enumerate(order[:cut]))
                for order in (gains, best)
            )
            found.append(seen / ideal)
    return found


def test_every_query_is_scored_as_by_hand(sets, students):
    for name, (one, table) in measure(sets, students, cut=2).items():
        for student, encoder in students.items():
            assert table[student].tolist() == pytest.approx(by_hand(one, encoder, 2), abs=1e-6), name
        assert len(table) > 0


def test_gains_are_over_the_first_encoder_and_have_an_interval(sets):
    cluster = np.repeat(["owl", "jay", "tit", "auk"], 25)
    gains = np.random.default_rng(0).normal(0.05, 0.1, 100)
    queries = pd.DataFrame({"cluster": cluster, "untrained": 0.4, "student": 0.4 + gains})
    table = compared({"wing colour": (sets[0], queries)}, seed=0).set_index("encoder")
    assert table["ndcg"]["untrained"] == pytest.approx(40) and math.isnan(table["gain"]["untrained"])
    row = table.loc["student"]
    assert row["gain"] == pytest.approx(100 * gains.mean())
    assert row["low"] < row["gain"] < row["high"]


def test_species_that_were_trained_on_are_left_out():
    names = query_sets({"cub": FOLDERS["cub"]})[0].source.classes
    trained = pd.DataFrame({"label": [names[0]], "split": ["train"]})
    for one in query_sets({"cub": FOLDERS["cub"]}, apart=trained):
        assert names[0] not in one.annotated.clusters
        assert one.published == 0  # other species than the authors'
    with pytest.raises(LayoutError, match="'Dodo' is no species of CUB"):
        query_sets({"cub": FOLDERS["cub"]}, apart=trained.assign(label="Dodo"))


def test_a_complete_cub_must_have_the_papers_queries(monkeypatch):
    monkeypatch.setattr(annotated, "BIRDS", 7)
    with pytest.raises(LayoutError, match="all 7 pictures, but wing colour has 4 queries instead of 4985"):
        query_sets({"cub": FOLDERS["cub"]})


def test_the_papers_species_apart_must_have_its_queries_too(monkeypatch):
    names = query_sets({"cub": FOLDERS["cub"]})[0].source.classes
    trained = pd.DataFrame({"label": [names[0]], "split": ["train"]})
    monkeypatch.setattr(annotated, "BIRDS", 7)
    monkeypatch.setattr(annotated, "LEFT_BIRDS", 3)
    with pytest.raises(LayoutError, match="instead of 2526"):
        query_sets({"cub": FOLDERS["cub"]}, apart=trained)


def test_nothing_annotated_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASK_ROOT", str(ROOT))
    assert annotated.main([str(tmp_path), "miniature"]) == 1
    assert capsys.readouterr().err.startswith("none of cub, pascal3d, cocostuff, ap10k is there")


@pytest.mark.parametrize("student", ["adapter", "=adapter", "mine=", "untrained=adapter"])
def test_a_student_without_a_name_or_folder_is_one_sentence(student, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASK_ROOT", str(ROOT))
    monkeypatch.setattr(annotated.clip, "load_backbone", lambda *_: tiny.backbone())
    (tmp_path / "birds").symlink_to(FOLDERS["cub"])
    assert annotated.main([str(tmp_path), "miniature", "--student", student]) == 1
    assert capsys.readouterr().err == (
        f"--student takes a name of its own and a folder, wing=path/to/adapter, but is {student!r}\n"
    )


def test_masks_are_found_below_the_folder_of_all_datasets(tmp_path):
    (tmp_path / "coco").symlink_to(FOLDERS["cocostuff"])
    (found,) = recognise(tmp_path)
    assert (found.source.root / found.source.table["mask"][0]).is_file()
    assert (found.source.root / found.source.table["path"][0]).is_file()


def test_the_command_compares_an_adapter_with_its_base(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASK_ROOT", str(ROOT))
    base = tiny.backbone()
    student = tiny.teach(adapt(tiny.backbone().model, 2, 4.0, seed=0))
    told = {"base": "tiny", "link": None, "judge": "pixel", "prompt_hash": "0", "data_hashes": {}}
    save_adapter(student, tmp_path / "adapter", told)
    monkeypatch.setattr(annotated.clip, "load_backbone", lambda *_: base)
    root = tmp_path / "datasets"
    root.mkdir()
    for name, folder in FOLDERS.items():
        (root / name).symlink_to(folder)
    out = tmp_path / "made" / "annotated.json"
    given = [
        str(root),
        "miniature",
        "--student",
        f"mine={tmp_path / 'adapter'}",
        "--out",
        str(out),
        "--cut",
        "2",
    ]
    assert annotated.main(given) == 0
    assert "wing colour" in capsys.readouterr().out
    rows = json.loads(out.read_text())
    assert {(one["criterion"], one["encoder"]) for one in rows} >= {("pose", "untrained"), ("pose", "mine")}
