import pandas as pd
import pytest

from ask.datasets.manifest import ManifestError, assign_splits, manifest_from_folders, read_manifest
from ask.datasets.pictures import PictureError


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        path = tmp_path / "manifest.csv"
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture
def tree(tmp_path):
    def grow(counts: dict[str, int]):
        for label, count in counts.items():
            (tmp_path / label).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (tmp_path / label / f"{number:02}.JPG").touch()
        return tmp_path

    return grow


def labelled(counts: dict[str, int]) -> pd.DataFrame:
    rows = [(f"{label}/{n}.jpg", label, "") for label, count in counts.items() for n in range(count)]
    return pd.DataFrame(rows, columns=["path", "label", "split"])


def test_a_manifest_is_read_with_its_own_column_names(written):
    path = written("\ufeffshot,file,species,split,angle\n1,a/1.jpg,007,train,1.5\n2,a/2.jpg,NA,heldout,2\n")
    table = read_manifest(path, {"path": "file", "label": "species"})
    assert list(table.columns) == ["path", "label", "split", "shot", "angle"]
    assert table["label"].tolist() == ["007", "NA"]  # text, neither a number nor a gap
    assert table["angle"].tolist() == [1.5, 2.0]


def test_a_mapped_column_wins_over_one_that_has_our_name_already(written):
    table = read_manifest(written("path,label,species\na.jpg,3,pug\n"), {"label": "species"})
    assert table.to_dict("list") == {"path": ["a.jpg"], "label": ["pug"], "split": [""]}


def test_label_and_split_may_be_absent_or_empty(written):
    assert read_manifest(written("path\na.jpg\n")).iloc[0].tolist() == ["a.jpg", "", ""]
    assert read_manifest(written("path,label,split\na.jpg,,\n")).iloc[0].tolist() == ["a.jpg", "", ""]


@pytest.mark.parametrize(
    ("text", "columns", "told"),
    [
        ("", {}, "lists no pictures; it needs one row per picture"),
        ("path,label,split\n", {}, "lists no pictures; it needs one row per picture"),
        ("file,label\na,b\n", {}, "has no column 'path' for our 'path'; its columns are file, label"),
        ("path,label\na,b\n", {"label": "breed"}, "has no column 'breed' for our 'label'"),
        ("path\na.jpg\na.jpg\n", {}, "lists a.jpg twice"),
        ("path,split\na,train\nb,trian\n", {}, "has the split 'trian' in line 3; known: train, heldout"),
        ('path\n"a\n', {}, "is not a CSV file in UTF-8"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_why(written, text, columns, told):
    path = written(text)
    with pytest.raises(ManifestError) as refusal:
        read_manifest(path, columns)
    assert str(refusal.value).startswith(f"manifest {path} {told}")


@pytest.mark.parametrize("path", ["../a.jpg", "/a.jpg", "a/../../b.jpg", "a\\b.jpg"])
def test_a_path_that_leaves_the_pictures_is_refused(written, path):
    with pytest.raises(PictureError, match="leaves the picture folder"):
        read_manifest(written(f"path\nb.jpg\n{path}\n"))


def test_a_missing_manifest_or_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"manifest .*none.csv is missing; give a CSV file"):
        read_manifest(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match=r"picture folder .*none is missing; give one with"):
        manifest_from_folders(tmp_path / "none", seed=0)
    with pytest.raises(ManifestError, match=r"holds no pictures \(.bmp, .gif"):
        manifest_from_folders(tmp_path, seed=0)


def test_class_folders_become_labels_without_what_they_share(tree):
    folder = tree({"photos/dogs/pug": 9, "photos/dogs/beagle": 9, "photos/dogs/hounds/basset": 9})
    for stray in ("photos/notes.txt", "photos/dogs/pug/._00.JPG", "photos/.cache/x.jpg"):
        (folder / stray).parent.mkdir(exist_ok=True)
        (folder / stray).touch()
    table, notes = manifest_from_folders(folder, seed=0)
    assert table["label"].value_counts().to_dict() == {"beagle": 9, "hounds/basset": 9, "pug": 9}
    assert table["path"].iloc[0] == "photos/dogs/beagle/00.JPG"
    assert notes == []


def test_classes_are_kept_out_and_the_others_divided_alike():
    table, notes = assign_splits(labelled({f"c{n}": 30 for n in range(20)}), seed=3)
    counts = table.groupby("label")["split"].value_counts().unstack(fill_value=0)
    unseen = counts[counts["gallery"] > 0]
    assert len(unseen) == 5
    assert (unseen["gallery"] == 30).all()
    seen = counts.drop(unseen.index)
    assert seen[["train", "heldout", "validation"]].drop_duplicates().values.tolist() == [[21, 6, 3]]
    assert notes == []


def test_splits_follow_from_seed_and_names_alone():
    table = labelled({f"c{n}": 12 for n in range(8)})
    split = assign_splits(table, seed=1)[0].set_index("path")["split"]
    assert (
        assign_splits(table.sample(frac=1, random_state=0), seed=1)[0]
        .set_index("path")["split"]
        .equals(split)
    )
    assert not assign_splits(table, seed=2)[0].set_index("path")["split"].equals(split)
    more = pd.concat([table, pd.DataFrame({"path": ["c0/new.jpg"], "label": ["c0"], "split": [""]})])
    others = assign_splits(more, seed=1)[0].query("label != 'c0'").set_index("path")["split"]
    assert others.equals(split[others.index])


@pytest.mark.parametrize("labels", [{"": 40}, {"pug": 40}, {"": 20, "pug": 20}])
def test_one_class_or_none_is_unlabelled_and_said_so(labels):
    table, notes = assign_splits(labelled(labels), seed=0)
    assert set(table["label"]) == {""}
    assert table["split"].value_counts().to_dict() == {
        "train": 18,
        "gallery": 10,
        "heldout": 8,
        "validation": 4,
    }
    assert notes == ["one class or none was found: groups are random and class metrics are skipped"]


def test_small_classes_and_pictures_without_label_are_outside_and_said_so():
    table, notes = assign_splits(labelled({"": 2, "a": 10, "b": 10, "rare": 3}), seed=0)
    assert set(table["split"][table["label"].isin(["", "rare"])]) == {"outside"}
    assert notes == [
        "2 pictures have no label and are outside",
        "classes with fewer than 8 pictures are outside: rare",
        "2 classes are too few to keep one out of adaptation: the gallery is empty",
    ]
