"""A dataset as the notebooks see it: a table or class folders, one domain of it, rows that count in the whole table."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from ask.datasets.dataset import open_dataset
from ask.datasets.manifest import ManifestError
from ask.datasets.pictures import PictureError

TASK = {"dataset": "own", "domain": "cats", "criterion": "breed"}


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / f"{i}.png")
    table = {
        "path": [f"{i}.png" for i in range(6)],
        "label": list("aabbcc"),
        "split": ["train", "gallery"] * 3,
    }
    pd.DataFrame(table | {"domain": ["cats"] * 4 + ["dogs"] * 2}).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_rows_count_in_the_whole_table_and_belong_to_the_domain(folder):
    dataset = open_dataset(str(folder), str(folder / "table.csv"), task=TASK | {"domain": "dogs"})
    assert list(dataset.rows("train")) == [4]
    assert list(dataset.rows("gallery")) == [5]
    assert list(dataset.find(["5.png", "0.png"])) == [0, 5]


def test_pixels_are_given_for_any_of_the_decoded_rows(folder):
    dataset = open_dataset(str(folder), str(folder / "table.csv"), task=TASK)
    pixels = dataset.pixels(np.array([3, 1]), lambda image: torch.tensor(np.array(image)[0, 0]))
    assert pixels(np.array([1, 3, 1])).shape == (3, 3)
    assert (pixels([1])[0] == pixels([3, 1])[1]).all()


def test_hashes_tell_pictures_apart(folder):
    dataset = open_dataset(str(folder), str(folder / "table.csv"), task=TASK)
    assert len(set(dataset.hashes(range(6)).values())) == 6


def test_own_pictures_never_pass_for_the_miniature(folder):
    dataset = open_dataset(str(folder), str(folder / "table.csv"), task=TASK)
    assert dataset.source == f"pictures in {folder.name}, judged by breed"


def test_a_domain_that_the_table_lacks_is_named(folder):
    with pytest.raises(ManifestError, match="no picture of the domain 'birds'; it has cats, dogs"):
        open_dataset(str(folder), str(folder / "table.csv"), task=TASK | {"domain": "birds"})


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_dataset(str(tmp_path / "nowhere"), None, task=TASK)


def test_a_table_without_splits_is_split_here(folder):
    table = pd.DataFrame({"path": [f"{i}.png" for i in range(6)], "label": ["a"] * 3 + ["b"] * 3})
    table.to_csv(folder / "bare.csv", index=False)
    dataset = open_dataset(str(folder), str(folder / "bare.csv"), task=TASK)
    assert set(dataset.manifest["split"]) <= {"train", "heldout", "validation", "gallery", "outside"}


def test_rows_that_were_not_decoded_are_when_they_are_asked_for(folder):
    dataset = open_dataset(str(folder), str(folder / "table.csv"), task=TASK)
    few = dataset.pixels(np.array([3]), lambda image: torch.tensor(np.array(image)))
    all_of_them = dataset.pixels(np.arange(6), lambda image: torch.tensor(np.array(image)))
    assert (few([0, 3, 5]) == all_of_them([0, 3, 5])).all()


def test_damaged_pictures_stop_a_run_or_are_left_out_and_counted(folder):
    (folder / "1.png").write_bytes((folder / "1.png").read_bytes()[:60])
    table = str(folder / "table.csv")
    with pytest.raises(PictureError, match=r"picture 1\.png cannot be read"):
        open_dataset(str(folder), table, task=TASK).hashes(range(6))
    dataset = open_dataset(str(folder), table, task=TASK | {"damaged": "skip"})
    assert dataset.manifest["path"].tolist() == ["0.png", "2.png", "3.png", "4.png", "5.png"]
    assert dataset.notes == ("1 of 6 pictures cannot be read and are left out: 1.png",)
    assert len(dataset.hashes(range(5))) == 5
    with pytest.raises(ManifestError, match="damaged must be stop or skip, but is 'ignore'"):
        open_dataset(str(folder), table, task=TASK | {"damaged": "ignore"})


def test_a_task_may_bring_a_world_of_its_own(folder, monkeypatch):
    home = folder / "a world"
    home.mkdir()
    shutil.copy(folder / "table.csv", home / "manifest.csv")
    bench = {"name": "few", "classes": ["a"], "templates": ["{}"], "paths": ["5.png"], "labels": [0]}
    (home / "benchmarks.json").write_text(json.dumps([bench, bench | {"paths": ["gone.png"]}]))
    (home / "anchor.json").write_text(json.dumps(["a photo of a cat."]))
    task = TASK | {"world": str(home), "pictures": "$ASK_PICTURES"}
    with pytest.raises(FileNotFoundError, match=r"in \$ASK_PICTURES, but that variable is not set"):
        open_dataset("elsewhere", None, task=task)
    monkeypatch.setenv("ASK_PICTURES", str(folder))
    dataset = open_dataset("elsewhere", None, task=task)
    assert dataset.anchor_texts() == ["a photo of a cat."] and dataset.benchmarks() == [bench]
    (home / "manifest.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"manifest\.csv is missing; run `dvc repro data`"):
        open_dataset("elsewhere", None, task=task)
