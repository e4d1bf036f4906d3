"""The miniature world's files: splits, benchmarks, anchor bank, annotations."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from ask import params
from ask.datasets import factors, world

OTHER = {"classes": 3, "train": 2, "heldout": 1, "validation": 1, "gallery": 2}
SMALL = {
    "seed": 0,
    "domains": {
        "critters": {
            "classes": 4,
            "train": 4,
            "heldout": 2,
            "validation": 1,
            "gallery": 3,
            "palette": ["red", "white"],
        },
        "cushions": OTHER,
        "blooms": OTHER,
        "carts": OTHER,
        "moths": OTHER,
    },
    "outside": 32,
    "bench": 40,
    "anchor_texts": 60,
}


@pytest.fixture(scope="module")
def rows():
    return world.manifest(SMALL)


def test_each_split_has_the_pictures_it_should_have(rows):
    critters = rows[rows.domain == "critters"]
    counts = critters[critters.split.isin(world.SPLITS)].groupby("split").size().to_dict()
    assert counts == {"train": 16, "heldout": 8, "validation": 4, "gallery": 12}
    assert rows["path"].is_unique


def test_gallery_species_take_no_part_in_adaptation(rows):
    adaptation = set(rows[rows.split.isin(("train", "heldout", "validation"))]["name"])
    assert not adaptation & set(rows[rows.split.isin(("gallery", "outside", "bench"))]["name"])


def test_the_outside_is_of_other_domains(rows):
    outside = rows[rows.split == "outside"]
    assert len(outside) == 32 and "critters" not in set(outside["domain"])


def test_a_palette_binds_its_domain_only(rows):
    assert set(rows[(rows.domain == "critters") & (rows.split != "bench")]["colour"]) <= {"red", "white"}
    assert len(set(rows["colour"])) > 6


def test_the_anchor_bank_shares_names_with_one_benchmark_only(rows):
    tasks = world.benchmarks(rows)
    bank = world.anchor_bank(rows, tasks, 60, 0)
    names = {prompt.removeprefix("a photo of a ") for prompt in bank}
    shared = [task["name"] for task in tasks if names & set(task["classes"])]
    assert len(bank) == 60
    assert shared == ["critters by name"]


def test_benchmarks_point_at_pictures_that_show_their_class(rows):
    known = rows.set_index("path")
    tasks = {task["name"]: task for task in world.benchmarks(rows)}
    assert len(tasks) >= 6
    for column, task in (
        ("colour", tasks["colours"]),
        ("texture", tasks["textures"]),
        ("name", tasks["carts by name"]),
    ):
        told = [task["classes"][label] for label in task["labels"]]
        assert told == list(known.loc[task["paths"], column])


def test_annotations_are_mostly_right_where_they_are_certain(rows):
    found = world.annotations(rows, 0)
    texture = found[found.attribute == "texture"].join(rows.set_index("path")["texture"], on="path")
    right = texture["value"] == texture["texture"]
    assert right[texture.certainty == 4].mean() > 0.9 > right[texture.certainty == 1].mean()


@pytest.mark.slow
def test_the_same_entry_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        world.write(tmp_path / name, SMALL)
    hashes = [
        {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((tmp_path / name).iterdir())}
        for name in ("one", "two")
    ]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 6


def test_the_default_world_has_five_domains_and_at_most_3500_pictures():
    entry = params.load()["world"]
    counts = [c["classes"] * sum(c[split] for split in world.SPLITS) for c in entry["domains"].values()]
    assert list(entry["domains"]) == list(factors.DOMAINS)
    assert sum(counts) + entry["outside"] + entry["bench"] <= 3500


def test_files_hold_what_the_manifest_says(tmp_path):
    world.write(tmp_path, SMALL | {"bench": 8, "outside": 16})
    table = pd.read_csv(tmp_path / "manifest.csv", keep_default_na=False)
    bank = json.loads((tmp_path / "anchor.json").read_text())
    assert len(bank) == 60
    assert np.isin(pd.read_csv(tmp_path / "annotations.csv")["path"], table["path"]).all()
