"""The step `data`, on a made-up copy of Pets of the true size of its pools, and small samples."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ask.datasets import paper
from ask.datasets.dataset import open_dataset
from ask.datasets.recognise import recognise

FORMATS = Path(__file__).parents[1] / "formats"
BREEDS, TRAIN, TEST = 37, 50, 20


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """A folder with Pets, CIFAR-10, a copy of EuroSAT in shards and something else."""
    root = tmp_path_factory.mktemp("datasets")
    pets = root / "oxford-iiit-pet"
    (pets / "images").mkdir(parents=True)
    (pets / "annotations").mkdir()
    lists, split = {"train": [], "test": []}, {"train": [], "val": [], "test": []}
    for breed in range(BREEDS):
        for n in range(1, TRAIN + TEST + 1):
            name, part = f"Breed_{breed:02d}_{n}", "train" if n <= TRAIN else "test"
            pixels = np.array([[[breed, n, 0], [n, breed, 90]]], np.uint8)
            Image.fromarray(pixels).save(pets / "images" / f"{name}.jpg", "PNG")
            lists[part].append(f"{name} {breed + 1} 1 1\n")
            split[part].append([f"{name}.jpg", breed, f"breed_{breed:02d}"])
    (pets / "annotations" / "trainval.txt").write_text("".join(lists["train"]))
    (pets / "annotations" / "test.txt").write_text("".join(lists["test"]))
    (pets / "split_zhou_OxfordPets.json").write_text(json.dumps(split))
    for name in ("cifar10", "wds_vtab-eurosat"):
        shutil.copytree(FORMATS / name, root / name)
    (root / "holiday").mkdir()
    return root


def test_a_folder_is_listed_and_nothing_is_written(datasets, capsys):
    before = sorted(datasets.rglob("*"))
    assert paper.main([str(datasets)]) == 0
    told = capsys.readouterr().out
    assert "oxford-iiit-pet" in told and "1850 train, 740 test" in told
    assert "holiday" in told and "not recognised" in told
    assert sorted(datasets.rglob("*")) == before


def test_worlds_are_written_that_a_task_can_name(datasets, tmp_path, capsys, monkeypatch):
    assert paper.main([str(datasets), "--out", str(tmp_path)]) == 0
    assert "pets: 1000 train, 250 heldout, 240 gallery, 3 benchmarks" in capsys.readouterr().out
    assert {file.name for file in tmp_path.glob("*.jpg")} == {
        "oxford-iiit-pet.jpg",
        "cifar10.jpg",
        "wds_vtab-eurosat.jpg",
    }
    monkeypatch.setenv("ASK_DATA", str(datasets))
    task = {"dataset": "paper", "domain": "pets", "criterion": "breed", "world": str(tmp_path / "pets")}
    dataset = open_dataset("unused", None, task=task | {"pictures": "$ASK_DATA"})
    assert [len(dataset.rows(split)) for split in ("train", "heldout", "gallery")] == [1000, 250, 240]
    assert [(one["name"], len(one["paths"])) for one in dataset.benchmarks()] == [
        ("cifar10", 5),
        ("pets", BREEDS * TEST),
        ("eurosat", 3),
    ]
    assert len(dataset.anchor_texts()) == 1_000
    shown = dataset.find(dataset.benchmarks()[0]["paths"])
    pixels = dataset.pixels(np.array([0]), lambda image: paper_pixels(image))
    assert pixels(shown).shape == (5, 3, 4, 4)


def paper_pixels(image):
    import torch

    return torch.tensor(np.asarray(image.resize((4, 4)))).permute(2, 0, 1)


def test_a_second_run_with_another_seed_does_not_move_what_a_study_stands_on(datasets, tmp_path, capsys):
    assert paper.main([str(datasets), "--out", str(tmp_path)]) == 0
    first = (tmp_path / "pets" / "manifest.csv").read_bytes()
    assert paper.main([str(datasets), "--out", str(tmp_path)]) == 0
    assert paper.main([str(datasets), "--out", str(tmp_path), "--seed", "1"]) == 1
    assert "exists and differs from what seed 1 draws" in capsys.readouterr().err
    assert (tmp_path / "pets" / "manifest.csv").read_bytes() == first


def test_an_authors_manifest_takes_the_place_of_ours(datasets, tmp_path, capsys):
    rows = [
        f"images/Breed_{breed:02d}_{n}.jpg,breed {breed:02d},train\n"
        for breed in range(2)
        for n in range(1, 5)
    ]
    (tmp_path / "theirs.csv").write_text("path,label,split\n" + "".join(rows))
    given = ["--manifest", f"pets={tmp_path / 'theirs.csv'}"]
    assert paper.main([str(datasets), "--out", str(tmp_path / "out"), *given]) == 0
    assert "pets: 8 train, 3 benchmarks" in capsys.readouterr().out


def test_a_dataset_in_two_folders_is_refused(datasets, tmp_path, capsys):
    root = shutil.copytree(datasets, tmp_path / "sets")
    home = next(one.folder for one in recognise(root) if one.dataset == "pets")
    shutil.copytree(home, root / "zz-pets")
    assert paper.main([str(root), "--out", str(tmp_path / "worlds")]) == 1
    assert f"pets must be in one folder, but is in {home.name} and zz-pets; move" in capsys.readouterr().err


def test_what_is_missing_is_one_sentence(tmp_path, capsys):
    assert paper.main([str(tmp_path / "nowhere")]) == 1
    assert "there is no folder" in capsys.readouterr().err
