"""Every reader against a small dataset in its true format; `expected.json` beside each says what it holds."""

import json
import pickle
import shutil
import time
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from ask.datasets.formats import (
    READERS,
    ap10k,
    cifar,
    cocostuff,
    cub,
    dtd,
    imagenet,
    pascal3d,
    pcam,
    read,
    webdataset,
)
from ask.datasets.members import Members
from ask.datasets.pictures import PictureError
from ask.datasets.source import LayoutError

FORMATS = Path(__file__).parents[1] / "formats"
FOLDERS = {
    "imagenet": "imagenet",
    "imagenet_sketch": "imagenet-sketch",
    "imagenet_o": "imagenet-o",
    "pets": "oxford_pets",
    "dtd": "dtd",
    "cars": "stanford_cars",
    "flowers": "oxford_flowers",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "caltech101": "caltech-101",
    "fer2013": "fer2013",
    "resisc45": "NWPU-RESISC45",
    "eurosat": "eurosat",
    "pcam": "pcam",
    "cub": "cub",
    "pascal3d": "PASCAL3D+_release1.1",
    "cocostuff": "cocostuff",
    "ap10k": "ap10k",
    "webdataset": "wds_vtab-eurosat",
}


def sample(name):
    return read(name, FORMATS / FOLDERS[name])


def expected(name):
    return json.loads((FORMATS / FOLDERS[name] / "expected.json").read_text(encoding="utf-8"))


def told(source, column="index", **where):
    """Name of a picture -> a column, of the rows that have these values."""
    table = source.table
    for name, value in where.items():
        table = table[table[name] == value]
    return {Path(path).name: value for path, value in zip(table["path"], table[column], strict=True)}


def names(source, **where):
    return [*told(source, **where)]


@pytest.fixture
def copied(tmp_path):
    """A function that copies a sample, to be bent."""
    return lambda name: Path(shutil.copytree(FORMATS / FOLDERS[name], tmp_path / FOLDERS[name]))


@pytest.mark.parametrize("name", READERS)
def test_every_sample_is_read_and_its_pictures_open(name):
    source = sample(name)
    pictures = Members(source.root)
    assert list(source.manifest)[:3] == ["path", "label", "split"] and len(source.table)
    assert all(pictures.load(path).mode == "RGB" for path in source.table["path"])
    if source.classes:
        labels = source.table["index"].map(dict(enumerate(source.classes)))
        assert labels.tolist() == source.table["label"].tolist()


@pytest.mark.parametrize("name", READERS)
def test_a_dataset_is_found_one_folder_deeper(name, tmp_path):
    shutil.copytree(FORMATS / FOLDERS[name], tmp_path / "unpacked" / FOLDERS[name])
    assert len(read(name, tmp_path / "unpacked").table) == len(sample(name).table)


@pytest.mark.parametrize("name", READERS)
def test_a_folder_that_holds_something_else_is_refused_with_what_was_looked_for_and_found(name, tmp_path):
    (tmp_path / "holiday").mkdir()
    with pytest.raises(LayoutError, match=r"looked for .* and found holiday there"):
        read(name, tmp_path)
    with pytest.raises(LayoutError, match="there is no folder"):
        read(name, tmp_path / "nowhere")


def test_an_unknown_reader_is_refused_with_the_known_ones():
    with pytest.raises(LayoutError, match="no reader is called 'mnist'; known are imagenet, "):
        read("mnist", ".")


# ------------------------------------------------------------------------------------------------ ImageNet


def ranks(source, wanted):
    """Index among all 1,000 -> index among the few classes of the sample."""
    return {imagenet.wnids().index(wnid): n for n, wnid in enumerate(wanted)}


def test_imagenet_counts_classes_by_sorted_wnid():
    source, wanted = sample("imagenet"), expected("imagenet")
    train = source.table[source.table["part"] == "train"]
    assert train["wnid"].value_counts().to_dict() == wanted["train_counts"]
    rank = ranks(source, wanted["wnids_sorted"])
    found = {name: rank[index] for name, index in told(source, part="val").items()}
    assert found == {name: one["index"] for name, one in wanted["val_labels_by_file"].items()}
    dogs = imagenet.wnids()[imagenet.DOGS]
    assert len(dogs) == 118 and set(wanted["dog_wnids"]) <= set(dogs) and dogs[-1] == "n02113978"


@pytest.mark.parametrize("table", ["LOC_val_solution.csv", "ILSVRC2012_devkit_t12"])
def test_flat_validation_pictures_are_looked_up(copied, table):
    root, wanted = copied("imagenet"), expected("imagenet")
    shutil.rmtree(root / "images" / "val")
    other = {"LOC_val_solution.csv", "ILSVRC2012_devkit_t12"} - {table}
    for name in other:
        shutil.rmtree(root / name) if (root / name).is_dir() else (root / name).unlink()
    found = told(read("imagenet", root), "wnid", part="val")
    assert found == {name: one["wnid"] for name, one in wanted["val_labels_by_file"].items()}


def test_flat_validation_pictures_without_a_table_are_refused(copied):
    root = copied("imagenet")
    shutil.rmtree(root / "images" / "val")
    shutil.rmtree(root / "ILSVRC2012_devkit_t12")
    (root / "LOC_val_solution.csv").unlink()
    with pytest.raises(LayoutError, match=r"looked for LOC_val_solution.csv or ILSVRC2012_devkit_t12"):
        read("imagenet", root)


def test_only_the_classes_that_are_asked_for_are_looked_into():
    source = imagenet.read((FORMATS / "imagenet").resolve(), ("train",), only=["n02085620"])
    assert set(source.table["label"]) == {"Chihuahua"} and len(source.table) == 3


def test_labels_are_unique_although_two_names_of_imagenet_come_twice():
    assert len(set(imagenet.names())) == 998 and len(set(imagenet.labels())) == 1_000


@pytest.mark.parametrize("name", ["imagenet_sketch", "imagenet_o"])
def test_subsets_of_imagenet_keep_their_order_whatever_folders_are_there(name):
    wanted = expected(name)
    rank = wanted.get("index_in_200") or wanted["imagenet_index"]
    table = sample(name).table
    assert dict(zip(table["wnid"], table["index"], strict=True)) == rank


def test_a_class_that_imagenet_o_does_not_have_is_refused(copied):
    (root := copied("imagenet_o")).joinpath("n02085620").mkdir()
    shutil.copy(next(root.glob("n0*/*.JPEG")), root / "n02085620" / "one.JPEG")
    with pytest.raises(LayoutError, match=r"n02085620 .* is none of its 200 classes"):
        read("imagenet_o", root)


# ------------------------------------------------------------------------------------------------ four domains


def test_pets_are_what_the_lists_say():
    source, wanted = sample("pets"), expected("pets")
    stems = {Path(name).stem: n for name, n in told(source).items()}
    assert stems == wanted["labels_0based"]
    assert {Path(n).stem: s for n, s in told(source, "species").items()} == wanted["species"]
    assert [Path(name).stem for name in names(source, part="train")] == wanted["trainval"]
    assert [Path(name).stem for name in names(source, part="test")] == wanted["test"]
    counts = source.table["coop"].value_counts()
    assert [counts[part] for part in ("train", "val", "test")] == wanted["coop_split_counts"]
    assert source.classes[2] == "american pit bull terrier"


@pytest.mark.parametrize("partition", [1, 2])
def test_textures_have_the_parts_of_their_partition(partition):
    source, wanted = dtd.read((FORMATS / "dtd").resolve(), partition), expected("dtd")
    test = wanted["partition1"]["test"] if partition == 1 else wanted["partition2_test"]
    assert [
        path.removeprefix("images/") for path in source.table["path"][source.table["part"] == "test"]
    ] == test
    assert list(source.classes) == wanted["classes"]
    joint = {f"{n.split('_')[0]}/{n}": words.split() for n, words in told(source, "joint").items()}
    assert wanted["joint_labels"].items() <= joint.items()
    counts = source.table["coop"].value_counts()
    assert [counts[part] for part in ("train", "val", "test")] == wanted["coop_counts"]


def test_cars_have_classes_boxes_and_parts():
    source, wanted = sample("cars"), expected("cars")
    assert list(source.classes) == wanted["class_names_devkit"]
    assert told(source, part="train") == wanted["train"] and told(source, part="test") == wanted["test"]
    assert source.table[["x1", "y1", "x2", "y2"]].iloc[0].tolist() == wanted["bbox_train_00001"]
    assert source.table["path"].iloc[-1] == "cars_test/cars_test/00002.jpg"
    from ask.datasets.formats.cars import year_first

    assert [year_first(name) for name in source.classes] == wanted["class_names_coop"]


def test_cars_whose_test_part_has_no_classes_are_refused(copied):
    (root := copied("cars")).joinpath("cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(LayoutError, match="looked for cars_test_annos_withlabels"):
        read("cars", root)
    shutil.copy(root / "devkit" / "cars_test_annos.mat", root / "cars_test_annos_withlabels (1).mat")
    with pytest.raises(LayoutError, match="says no classes"):
        read("cars", root)


def test_cars_in_class_folders_are_refused(tmp_path):
    (tmp_path / "train" / "Acura RL").mkdir(parents=True)
    shutil.copy(FORMATS / "stanford_cars" / "cars_train" / "00001.jpg", tmp_path / "train" / "Acura RL")
    with pytest.raises(LayoutError, match="a copy in class folders"):
        read("cars", tmp_path)


def test_flowers_count_from_one_in_their_files_and_from_zero_here():
    source, wanted = sample("flowers"), expected("flowers")
    assert told(source) == wanted["labels_0based"]
    for part, numbers in wanted["official"].items():
        assert names(source, part=part) == [f"image_{n:05d}.jpg" for n in numbers]
    assert source.classes[0] == wanted["name_of_label_0"]
    counts = source.table["coop"].value_counts()
    assert [counts[part] for part in ("train", "val", "test")] == wanted["coop_counts"]


def test_flowers_without_any_names_are_refused(copied):
    root = copied("flowers")
    (root / "cat_to_name.json").unlink()
    assert read("flowers", root).classes[0] == "pink primrose"
    (root / "split_zhou_OxfordFlowers.json").unlink()
    with pytest.raises(LayoutError, match=r"looked for cat_to_name.json"):
        read("flowers", root)


@pytest.mark.parametrize("name", ["pets", "dtd", "cars", "flowers", "caltech101", "eurosat"])
def test_a_split_that_lists_what_is_not_there_or_mixes_classes_is_refused(copied, name):
    root = copied(name)
    file = next(root.glob("split_zhou_*.json"))
    split = json.loads(file.read_text())
    (path, index, label), other = split["test"][0], split["train"][1]
    file.write_text(json.dumps(split | {"test": [[f"gone/{path}", index, label]]}))
    with pytest.raises(LayoutError, match=r"lists gone/.*, which is not there"):
        read(name, root)
    moved = [[path, next(i for _, i, _ in split["train"] + split["val"] if i != index), label]]
    file.write_text(json.dumps(split | {"test": moved}))
    with pytest.raises(LayoutError, match="disagree about class"):
        read(name, root)
    file.write_text(json.dumps(split | {"test": [other]}))
    with pytest.raises(LayoutError, match=r"lists .* twice"):
        read(name, root)
    file.write_text("[]")
    with pytest.raises(LayoutError, match="is no split file of CoOp"):
        read(name, root)


# ------------------------------------------------------------------------------------------------ benchmarks


def test_cifar_has_planes_and_fine_labels():
    ten, hundred, wanted = sample("cifar10"), sample("cifar100"), expected("cifar10")
    test = ten.table[ten.table["part"] == "test"]
    assert test["index"].tolist() == wanted["cifar10"]["test_labels"]
    assert list(ten.classes) == wanted["cifar10"]["classes"]
    assert (len(ten.table) - len(test), len(test)) == (
        wanted["cifar10"]["n_train"],
        wanted["cifar10"]["n_test"],
    )
    pixels = np.asarray(Members(ten.root).load(test["path"].iloc[0]))
    assert pixels[0, 0].tolist() == wanted["cifar10"]["image0_pixel_0_0_rgb"]
    second = np.asarray(Members(ten.root).load(test["path"].iloc[1]))
    place = wanted["cifar10"]["image1_nonzero_pixel"]
    assert second[place["row"], place["col"]].tolist() == place["rgb"] and second.sum() == sum(place["rgb"])
    fine = hundred.table[hundred.table["part"] == "test"]["index"].tolist()
    assert fine == wanted["cifar100"]["test_fine_labels"]


def test_a_pickle_that_wants_more_than_arrays_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "batch").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(LayoutError, match=r"is no CIFAR file .*which no CIFAR file needs"):
        cifar.load_batch(tmp_path / "batch")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "batch").write_bytes(b"nonsense")
    with pytest.raises(LayoutError, match="is no CIFAR file"):
        cifar.load_batch(tmp_path / "batch")


def test_caltech_is_in_the_order_of_tfds_background_included():
    source, wanted = sample("caltech101"), expected("caltech101")
    assert [one.replace(" ", "_") for one in source.classes] == wanted["case_insensitive_sorted"]
    assert (source.table["label"].value_counts() == wanted["images_per_class"]).all()
    assert set(source.table["coop"]) == {"train", "val", "test", ""}


def test_faces_count_emotions_as_the_folders_do(copied):
    source, wanted = sample("fer2013"), expected("fer2013")
    assert list(source.classes) == wanted["folder_class_order"]
    order = {n: index for n, index in wanted["csv_emotion_to_folder_index"].items()}
    test = source.table[source.table["part"] == "test"]["index"].tolist()
    assert test == [order[str(n)] for n in wanted["test_labels_csv"]]
    pixels = np.asarray(Members(source.root).load("fer2013.csv/0"))[:, :, 0]
    assert pixels.shape == (48, 48) and pixels[0, 47] == 250 and pixels[5, 5] == 7
    root = copied("fer2013")
    (root / "fer2013.csv").unlink()
    assert read("fer2013", root).table["index"].tolist() == source.table["index"].tolist()
    folders = read("fer2013", FORMATS / "fer2013_folders")
    assert sorted(folders.table["index"]) == sorted(source.table["index"])


def test_a_broken_copy_of_the_faces_is_refused(copied):
    root = copied("fer2013")
    with (root / "fer2013.csv").open("a") as file:
        file.write("trailing\n")
    with pytest.raises(LayoutError, match="it is a broken copy"):
        read("fer2013", root)


def test_scenes_are_labelled_by_their_folder():
    source, wanted = sample("resisc45"), expected("resisc45")
    assert dict(zip(source.table["path"], source.table["index"], strict=True)) == wanted["labels"]
    assert list(source.classes) == wanted["prompt_names"]


@pytest.mark.parametrize("folder", ["eurosat", "eurosat_zenodo"])
def test_land_use_keeps_all_ten_classes(folder):
    source = read("eurosat", FORMATS / folder)
    assert len(source.classes) == 10 and source.classes[9] == "sea lake"
    assert set(source.table["index"]) == {0, 2, 9}


def test_a_folder_that_is_no_class_is_refused(copied):
    root = copied("eurosat")
    shutil.move(root / "2750" / "SeaLake", root / "2750" / "Lake")
    (root / "split_zhou_EuroSAT.json").unlink()
    with pytest.raises(LayoutError, match=r"the folder Lake .* is none of its 10 classes"):
        read("eurosat", root)


def test_tissue_is_read_from_hdf5_packed_labels_too(copied):
    source, wanted = sample("pcam"), expected("pcam")
    assert source.table["index"].tolist() == wanted["labels"] and list(source.classes) == wanted["classes"]
    first = np.asarray(Members(source.root).load(source.table["path"][0]))
    assert first[0, 0].tolist() == wanted["image0_pixel"]
    root = copied("pcam")
    pictures, packed = (root / f"camelyonpatch_level_2_split_valid_{name}" for name in ("x.h5", "y.h5.gz"))
    for count in (len(pcam.labels(packed)), 1):
        with h5py.File(pictures, "w") as file:
            file["x"] = np.zeros((count, 96, 96, 3), np.uint8)
        if count > 1:
            assert set(read("pcam", root).table["part"]) == {"val", "test"}
    with pytest.raises(LayoutError, match=r"holds 1 pictures for \d+ labels"):
        read("pcam", root)


def test_packed_tissue_is_to_be_unpacked(tmp_path):
    (tmp_path / "camelyonpatch_level_2_split_test_x.h5.gz").touch()
    with pytest.raises(LayoutError, match=r"unpack .*x.h5.gz first"):
        read("pcam", tmp_path)


def test_shards_hold_their_classes_and_templates(copied):
    source, wanted = sample("webdataset"), expected("webdataset")
    assert source.table["index"].tolist() == wanted["labels"] and len(source.classes) == wanted["classes"]
    assert [Path(path).stem for path in source.table["path"]] == wanted["keys"]
    assert Members(source.root).load(source.table["path"][0]).size == tuple(wanted["image_size"])
    assert len(webdataset.templates(source.root)) == wanted["templates"]
    root = copied("webdataset")
    (root / "test" / "1.tar").unlink()
    with pytest.raises(LayoutError, match=r"1\.tar is missing of 2 shards"):
        read("webdataset", root)


# ------------------------------------------------------------------------------------------------ annotated


def pairs(annotated, key):
    """(query, gallery) -> relevance, of eligible pairs."""
    names = [key(row) for row in annotated.rows]
    places = np.argwhere(annotated.eligible & ~np.eye(len(names), dtype=bool))
    return {f"{names[i]},{names[j]}": annotated.relevance[i, j] for i, j in places}


@pytest.mark.parametrize("criterion", cub.CRITERIA)
def test_birds_are_as_alike_as_the_attributes_they_share(criterion):
    source, wanted = sample("cub"), expected("cub")["criteria"][cub.CRITERIA[criterion]]
    found = cub.attributes(source, criterion)
    image = source.table["image"]
    assert image[found.rows].tolist() == wanted["eligible"]
    assert pairs(found, lambda row: image[row]) == pytest.approx(wanted["relevance_other_species_only"])


def test_birds_have_species_and_parts():
    source, wanted = sample("cub"), expected("cub")
    image = source.table["image"]
    assert image[source.table["part"] == "test"].tolist() == wanted["test_ids"]
    assert {str(n): i for n, i in zip(image, source.table["index"], strict=True)} == wanted["species_0based"]
    few = cub.attributes(source, "wing colour", species=np.array([0, 1]))
    assert set(source.table["index"][few.rows]) == {0, 1}


@pytest.mark.parametrize("place", ["CUB_200_2011/attributes.txt", "CUB_200_2011/attributes/attributes.txt"])
def test_names_of_attributes_may_lie_in_three_places(copied, place):
    root = copied("cub")
    shutil.move(root / "attributes.txt", root / place)
    assert len(cub.seen(read("cub", root), "bill shape").values) == 9


def test_an_attribute_table_that_was_cut_is_refused(copied):
    root = copied("cub")
    file = root / "CUB_200_2011" / "attributes" / "image_attribute_labels.txt"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(LayoutError, match="has 2183 lines for 7 pictures of 312 attributes"):
        cub.seen(read("cub", root), "wing colour")
    with pytest.raises(LayoutError, match="has no criterion 'beak'"):
        cub.seen(read("cub", root), "beak")


def test_clear_cars_have_a_fine_azimuth():
    source, wanted = sample("pascal3d"), expected("pascal3d")
    assert {Path(n).stem: az for n, az in told(source, "azimuth").items()} == wanted["clear"]
    assert source.notes[0].startswith("car: 2 of 10 are clear")
    found = pairs(pascal3d.viewpoint(source), lambda row: Path(source.table["path"][row]).stem)
    assert found["2008_000028,2008_000052"] == pytest.approx(
        wanted["relevance_examples"]["2008_000028,2008_000052"]
    )


def test_the_rule_for_clear_cars_can_be_another():
    root = (FORMATS / "PASCAL3D+_release1.1").resolve()
    coarse = pascal3d.read(root, rule=pascal3d.Clear(fine=False)).table
    assert coarse["azimuth"][coarse["path"].str.contains("2008_000109")].tolist() == [90]
    assert (
        len(
            pascal3d.read(
                root, rule=pascal3d.Clear(only_one=False, whole=False, free=False, easy=False)
            ).table
        )
        == 6
    )


def test_backgrounds_are_as_alike_as_the_stuff_they_share():
    source, wanted = sample("cocostuff"), expected("cocostuff")
    stems = [Path(path).stem for path in source.table["path"]]
    shares = cocostuff.shares(source, side=None)
    for row, stem in enumerate(stems):
        one = wanted["per_image_native_centre_square"][stem]
        assert shares.stuff[row] == pytest.approx(one["stuff_fraction"], abs=1e-6)
        assert shares.foreground[row] == pytest.approx(one["foreground_fraction"], abs=1e-6)
        assert shares.dominant[row] == one["dominant_foreground"]
    found = cocostuff.backgrounds(source, shares)
    assert [stems[row] for row in found.rows] == wanted["eligible"]
    assert pairs(found, lambda row: stems[row]) == pytest.approx(wanted["relevance_query_gallery"])
    assert len(cocostuff.backgrounds(source, shares, dogs="any").rows) == len(wanted["eligible"])
    with pytest.raises(ValueError, match="dogs must be dominant or any"):
        cocostuff.backgrounds(source, shares, dogs="none")


def test_masks_are_cropped_as_clip_crops_and_mix_no_labels():
    source = sample("cocostuff")
    scaled, native = cocostuff.shares(source), cocostuff.shares(source, side=None)
    assert ((scaled.share > 0) == (native.share > 0)).all()
    assert abs(scaled.share - native.share).max() < 0.02


def test_animals_are_as_alike_as_their_poses():
    source, wanted = sample("ap10k"), expected("ap10k")
    number = source.table["path"].map(lambda path: int(Path(path).stem))
    assert number.tolist() == wanted["eligible_image_ids"]
    found = ap10k.poses(source)
    likeness = pairs(found, lambda row: number[row])
    for key, one in wanted["pairs_same_species"].items():
        assert (key not in likeness) if one is None else likeness[key] == pytest.approx(one["relevance"])


# ------------------------------------------------------------------------------------------------ members, size


def test_members_outside_and_members_that_are_none_are_refused(tmp_path):
    pictures = Members(FORMATS / "cifar10")
    for path in ("../cifar10/cifar-10-batches-py/test_batch/0", "cifar-10-batches-py/test_batch/99"):
        with pytest.raises(PictureError):
            pictures.load(path)
    with pytest.raises(PictureError, match=r"readme.html is no file that pictures are read from"):
        pictures.load("cifar-10-batches-py/readme.html/0")
    (tmp_path / "link").symlink_to(FORMATS / "cifar10" / "cifar-10-batches-py" / "test_batch")
    with pytest.raises(PictureError, match="link out of"):
        Members(tmp_path).load("link/0")


def test_50000_pictures_in_class_folders_are_listed_within_two_seconds(tmp_path):
    for wnid in imagenet.wnids()[:50]:
        (tmp_path / "sketch" / wnid).mkdir(parents=True)
        for n in range(1_000):
            (tmp_path / "sketch" / wnid / f"sketch_{n}.JPEG").touch()
    began = time.perf_counter()
    table = read("imagenet_sketch", tmp_path).table
    assert time.perf_counter() - began < 4 and len(table) == 50_000
    assert isinstance(table, pd.DataFrame)
