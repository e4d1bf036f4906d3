"""The five domains, drawn from made-up tables of the datasets' shape, and from CoOp's own files where they are."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sources import ROOT

from ask.datasets.domains import (
    DOMAINS,
    LABEL_GROUPS,
    birds,
    breeds,
    check_disjoint,
    draw,
    others,
    placed,
    write_manifest,
)
from ask.datasets.formats.coop import read_split
from ask.datasets.formats.imagenet import DOGS, labels, wnids
from ask.datasets.manifest import ManifestError, read_manifest
from ask.datasets.pictures import open_pictures
from ask.datasets.source import Source
from ask.datasets.wordnet import distances

SPLITS = Path(__file__).parents[2].parent / "shared" / "splits"
PUBLISHED = {
    "pets": "split_zhou_OxfordPets.json",
    "textures": "split_zhou_DescribableTextures.json",
    "flowers": "split_zhou_OxfordFlowers.json",
}


def imagenet(per_class=70):
    rows = [
        (f"train/{wnid}/{wnid}_{n}.JPEG", labels()[index], index, "train")
        for index, wnid in enumerate(wnids())
        for n in range(per_class if index in range(1000)[DOGS] else 5)
    ]
    return Source(
        "imagenet", Path("data"), pd.DataFrame(rows, columns=["path", "label", "index", "part"]), labels()
    )


def coop(classes, counts):
    """So many classes with so many pictures in CoOp's parts."""
    rows = [
        (f"pictures/{part}_{label}_{n}.jpg", f"class {label}", label, part)
        for label in range(classes)
        for part, count in counts.items()
        for n in range(count)
    ]
    table = pd.DataFrame(rows, columns=["path", "label", "index", "coop"])
    return Source("some", Path("data"), table, tuple(f"class {label}" for label in range(classes)))


def published(name):
    """A dataset as its split file has it, with the labels that our readers give."""
    if not (SPLITS / PUBLISHED[name]).is_file():
        pytest.skip(f"no split files at {SPLITS}")
    table = read_split(SPLITS / PUBLISHED[name]).rename(columns={"name": "label"})
    folder = {"pets": "images/", "flowers": "jpg/"}.get(name, "")
    table["path"], table["label"] = folder + table["path"], table["label"].str.replace("_", " ")
    named = dict(zip(table["index"], table["label"], strict=True))
    return Source(name, SPLITS, table, tuple(named[index] for index in range(len(named))))


def check(name, drawn):
    domain = DOMAINS[name]
    sizes = {"train": 1000, "heldout": 250, "gallery": 20 * domain.unseen}
    assert drawn["split"].value_counts().to_dict() == sizes | ({"validation": 250} if name == "dogs" else {})
    assert not drawn["path"].duplicated().any()
    per_class = drawn.groupby(["split", "label"]).size().groupby("split").unique().map(list).to_dict()
    assert per_class == {"train": [40], "heldout": [10], "gallery": [20]} | (
        {"validation": [10]} if name == "dogs" else {}
    )
    classes = drawn.groupby("split")["label"].unique().map(set)
    assert classes["train"] == classes["heldout"] and not classes["train"] & classes["gallery"]


def test_dogs_are_drawn_with_their_label_groups_and_distances():
    source = imagenet()
    drawn = draw("dogs", source, seed=0)
    check("dogs", drawn)
    adapted = [wnids()[index] for index in sorted(set(drawn["index"][drawn["split"] == "train"]))]
    assert {wnid for group in LABEL_GROUPS for wnid in group} <= set(adapted) and adapted == breeds(0)
    assert set(distances(adapted).ravel()) == {0, *range(2, 9)}


@pytest.mark.parametrize("seed", range(5))
def test_breeds_of_any_seed_keep_the_rule(seed):
    assert set(distances(breeds(seed)).ravel()) == {0, *range(2, 9)} and len(set(breeds(seed))) == 25


@pytest.mark.parametrize(
    ("name", "classes", "counts"),
    [
        ("pets", 37, {"train": 60, "test": 25}),
        ("textures", 47, {"train": 60, "val": 24, "test": 36}),
        ("cars", 60, {"train": 32, "val": 8, "test": 40}),
        ("flowers", 60, {"train": 30, "val": 12, "test": 30}),
    ],
)
def test_other_domains_have_the_sizes_of_the_paper(name, classes, counts):
    check(name, draw(name, coop(classes, counts), seed=0))


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_split_files_fill_every_domain(name):
    check(name, draw(name, published(name), seed=0))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_manifests_that_are_kept_are_what_their_seed_draws(name):
    kept = ROOT / "profiles" / "paper" / "manifests" / f"{name}.csv"
    told = json.loads(kept.with_suffix(".json").read_text())
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == told["sha256"] and told["own split"]
    manifest = read_manifest(kept)
    check(name, manifest)
    drawn = draw(name, published(name), seed=told["seed"])
    assert manifest[["path", "label", "split"]].equals(drawn[["path", "label", "split"]])


def test_the_same_seed_draws_the_same_wherever_the_files_lie():
    here, there = coop(40, {"train": 60, "test": 25}), coop(40, {"train": 60, "test": 25})
    there.table["path"] = "my/copies/" + there.table["path"]
    first, second = draw("pets", here, seed=3), draw("pets", there, seed=3)
    assert ("my/copies/" + first["path"]).tolist() == second["path"].tolist()
    assert draw("pets", here, seed=4)["path"].tolist() != first["path"].tolist()
    assert placed(first, there)["path"].tolist() == second["path"].tolist()


def test_a_class_with_too_few_images_is_named_with_the_counts():
    source = coop(40, {"train": 29, "val": 0, "test": 40})
    with pytest.raises(
        ManifestError, match=r"flowers: 0 classes have 40 pictures in train and val .* 25 asked"
    ):
        draw("flowers", source, seed=0)
    source, given = coop(60, {"train": 29, "val": 0, "test": 40}), [f"class {n}" for n in range(25)]
    with pytest.raises(ManifestError, match=r"class class 0 has 29 images in train and val, 40 asked"):
        draw("flowers", source, seed=0, classes=given)


def test_too_few_classes_for_the_gallery_are_counted():
    with pytest.raises(ManifestError, match=r"pets: 5 classes have 20 pictures for the gallery, 12 asked"):
        draw("pets", coop(30, {"train": 60, "test": 25}), seed=0)


def test_without_coops_split_nothing_is_drawn():
    source = coop(40, {"train": 60, "test": 25})
    bare = Source("pets", source.root, source.table.drop(columns="coop"), source.classes)
    with pytest.raises(ManifestError, match=r"holds no split_zhou_\*\.json; add it"):
        draw("pets", bare, seed=0)


def test_the_other_gallery_has_no_canines():
    drawn = others(imagenet(), seed=0)
    assert len(drawn) == 200 and drawn["label"].nunique() == 50
    assert not set(drawn["index"]) & {*range(151, 269), 273, 274, 275}
    assert not set(drawn["path"]) & set(draw("dogs", imagenet(), seed=0)["path"])


def test_birds_are_sampled_from_the_training_part_whatever_their_species():
    parts = ("test", "train", "train")
    rows = [(f"images/{n % 200}/{n}.jpg", f"bird {n % 200}", n % 200, parts[n % 3]) for n in range(6000)]
    table = pd.DataFrame(rows, columns=["path", "label", "index", "part"])
    source = Source("cub", Path("data"), table, tuple(f"bird {n}" for n in range(200)))
    drawn, few = birds(source, seed=0), birds(source, seed=0, species=100)
    assert drawn["split"].value_counts().to_dict() == {"train": 992, "heldout": 250}
    assert drawn["label"].nunique() > 190 and few["label"].nunique() == 100
    assert not drawn["path"].duplicated().any()
    assert set(drawn["path"]) <= set(table["path"][table["part"] == "train"])
    with pytest.raises(ManifestError, match=r"birds: \d+ training pictures, 992 and 250 held out asked"):
        birds(source, seed=0, species=10)


def test_the_same_picture_under_two_names_is_found(tmp_path):
    for name, seed in (("a.png", 0), ("b.png", 1), ("c.png", 0)):
        Image.fromarray(np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)).save(
            tmp_path / name
        )
    manifest, pictures = pd.DataFrame({"path": ["a.png", "b.png"]}), open_pictures(tmp_path)
    check_disjoint(manifest, pictures)
    with pytest.raises(ManifestError, match=r"c\.png is the same picture as a\.png"):
        check_disjoint(pd.DataFrame({"path": ["a.png", "b.png", "c.png"]}), pictures)


def test_a_manifest_is_written_once(tmp_path):
    drawn = draw("pets", coop(40, {"train": 60, "test": 25}), seed=0)
    digest = write_manifest(drawn, tmp_path / "pets.csv", seed=0, domain=DOMAINS["pets"])
    told = json.loads((tmp_path / "pets.json").read_text())
    assert told["sha256"] == digest and told["own split"] and told["drawn"]["train"] == ["train"]
    assert write_manifest(drawn, tmp_path / "pets.csv", seed=0) == digest
    with pytest.raises(ManifestError, match=r"pets\.csv exists and differs from what seed 1 draws"):
        write_manifest(drawn.iloc[1:], tmp_path / "pets.csv", seed=1)


def test_a_manifest_of_another_copy_is_refused_if_it_does_not_fit():
    source = coop(40, {"train": 60, "test": 25})
    drawn = draw("pets", source, seed=0)
    with pytest.raises(ManifestError, match=r"1 of 2 pictures are not in data, pictures/gone\.jpg the first"):
        placed(pd.DataFrame({"path": [drawn["path"][0], "pictures/gone.jpg"], "label": ["", ""]}), source)
    with pytest.raises(ManifestError, match=r"is of class class \d+, the manifest has poodle"):
        placed(drawn.assign(label="poodle"), source)
