"""The paper's benchmarks, of the small datasets in ``tests/formats``, and which of these are recognised."""

import shutil
from pathlib import Path

import pytest
from open_clip import IMAGENET_CLASSNAMES

from ask.datasets.benchmarks import BENCHMARKS, anchor_texts, benchmark, names
from ask.datasets.formats import read
from ask.datasets.recognise import copied, recognise
from ask.datasets.source import LayoutError
from ask.published import published

FORMATS = Path(__file__).parents[1] / "formats"


@pytest.fixture(scope="module")
def found():
    return {one.folder.name: one for one in recognise(FORMATS)}


def made(found, folder, name=None, **options):
    one = found[folder]
    return benchmark(name or one.dataset, one.source, folder=one.folder, seed=0, **options)


def test_every_sample_is_recognised_as_what_it_is(found):
    known = {name: one.dataset for name, one in found.items()}
    assert known["oxford_pets"] == "pets" and known["wds_vtab-eurosat"] == "webdataset"
    assert known["imagenet-o"] == "imagenet_o" and known["imagenet-sketch"] == "imagenet_sketch"
    assert known["eurosat_zenodo"] == "eurosat" and known["fer2013_folders"] == "fer2013"
    assert all(known.values()) and not any(one.problem for one in found.values())
    assert copied(found["wds_vtab-eurosat"]) == "eurosat" and copied(found["eurosat"]) == ""
    assert all(one.source.table["path"].str.startswith(f"{name}/").all() for name, one in found.items())


def test_what_is_no_dataset_and_what_is_broken_is_said(tmp_path):
    (tmp_path / "holiday").mkdir()
    shutil.copytree(FORMATS / "fer2013", tmp_path / "fer2013")
    with (tmp_path / "fer2013" / "fer2013.csv").open("a") as file:
        file.write("trailing\n")
    broken, other = recognise(tmp_path)
    assert broken.dataset == "" and "is a broken copy" in broken.problem
    assert other.dataset == other.problem == ""
    with pytest.raises(LayoutError, match="there is no folder"):
        recognise(tmp_path / "nowhere")


def test_every_benchmark_has_a_column_in_the_papers_table():
    for one in BENCHMARKS.values():
        assert published("6", "ViT-B/16 / Untrained CLIP", one.column) > 0
    assert len(BENCHMARKS) == 12


def test_names_and_templates_are_those_of_clip_benchmark(found):
    told, table = made(found, "cifar10")
    assert told["classes"][:2] == ["airplane", "automobile"] and len(told["templates"]) == 18
    assert told["labels"] == [0, 5, 3, 9, 1] == table["index"].tolist() and told["comparable"]
    assert told["templates"][0].format("dog") == "a photo of a dog."
    faces, _ = made(found, "fer2013")
    assert faces["classes"][faces["labels"][0]] == "neutral"
    scenes, _ = made(found, "NWPU-RESISC45")
    assert scenes["classes"] == ["airplane", "railway", "railway station"]
    assert "sattelite" in scenes["templates"][0]


def test_imagenets_subsets_have_its_names(found):
    sketch, _ = made(found, "imagenet-sketch")
    assert sketch["classes"] == list(IMAGENET_CLASSNAMES) and len(sketch["templates"]) == 80
    other, _ = made(found, "imagenet-o")
    assert len(other["classes"]) == 200 and other["classes"][0] == "goldfish"
    assert [other["classes"][n] for n in other["labels"]] == found["imagenet-o"].source.table[
        "label"
    ].tolist()


def test_imagenet_takes_so_many_of_each_class(found):
    told, table = made(found, "imagenet")
    assert len(told["paths"]) == 5 and all("/val/" in path for path in told["paths"])
    assert table["index"].value_counts().max() == 2


def test_a_part_that_only_tfds_knows_is_drawn_and_marked(found):
    own, _ = made(found, "eurosat")
    assert not own["comparable"] and len(own["paths"]) == 2
    again, _ = made(found, "eurosat")
    assert own == again
    copy, _ = made(found, "wds_vtab-eurosat", "eurosat")
    assert copy["comparable"] and copy["labels"] == [3, 0, 9] and len(copy["templates"]) == 3


def test_a_dataset_with_other_classes_than_names_is_refused(found):
    with pytest.raises(LayoutError, match=r"caltech101: 6 classes in .*, but 102 names"):
        made(found, "caltech-101")


def test_names_follow_the_order_of_the_classes():
    caltech = names("caltech101", read("caltech101", FORMATS / "caltech-101"))
    assert caltech[:5] == ["accordion", "airplane", "anchor", "ant", "background"]
    assert names("pets", read("pets", FORMATS / "oxford_pets"))[11] == "Egyptian Mau"


def test_the_anchor_bank_is_a_list_for_two_names_come_twice():
    texts = anchor_texts()
    assert len(texts) == 1_000 and len(set(texts)) == 998 and texts[0] == "a photo of a tench."
