import io
import json
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ask.datasets import pictures
from ask.datasets.pictures import (
    DamagedPictureWarning,
    PictureError,
    open_pictures,
    picture_hash,
    prepare,
    write_pack,
)

AWKWARD = Path(__file__).parents[2].parent / "shared" / "cases" / "awkward"


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(colour="red", size=(8, 6)) -> Image.Image:
    return Image.new("RGB", size, colour)


def awkward_cases() -> list:
    if not AWKWARD.is_dir():
        return [pytest.param("", {}, marks=pytest.mark.skip(reason=f"no awkward pictures at {AWKWARD}"))]
    files = json.loads((AWKWARD / "expected.json").read_text())["files"]
    return [pytest.param(name, case, id=name) for name, case in files.items()]


@pytest.mark.parametrize(("name", "case"), awkward_cases())
def test_an_awkward_picture_loads_or_is_refused_as_practice_demands(name, case):
    folder = open_pictures(AWKWARD)
    if not case["loads"]:
        with pytest.raises(PictureError, match=name):
            folder.load(name)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        picture = folder.load(name)
    assert [w.category for w in told] == ([DamagedPictureWarning] if name == "broken_stream.png" else [])
    assert picture.mode == "RGB"
    assert list(picture.size) == case["size_after_exif_transpose"]
    colours = dict(case.get("rgb_over_white", case["rgb_plain_convert"]))
    if name == "gray16.png":
        colours["centre"] = [130, 130, 130]  # 16 bits divided by 257, where a plain conversion clips
    places = {
        "top_left": (0, 0),
        "centre": (picture.width // 2, picture.height // 2),
        "bottom_right": (picture.width - 1, picture.height - 1),
    }
    assert {place: list(picture.getpixel(xy)) for place, xy in places.items()} == colours


def test_sixteen_bits_are_divided_not_clipped():
    ramp = Image.fromarray(np.array([[0, 257, 25700, 65535]], np.uint16))
    assert np.asarray(prepare(encoded(ramp), "ramp.png"))[0, :, 0].tolist() == [0, 1, 100, 255]


def test_transparency_lies_over_white_in_every_mode_that_has_it():
    hidden = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    palette = hidden.convert("P")
    palette.info["transparency"] = palette.getpixel((0, 0))
    for image in (hidden, hidden.convert("LA"), palette):
        assert prepare(encoded(image), image.mode).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_undone(orientation):
    upright = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40).convert("RGB")
    stored = upright.transpose(pictures.TURNS[orientation]) if orientation > 1 else upright
    if orientation in (6, 8):  # the two quarter turns undo each other
        stored = upright.transpose(pictures.TURNS[14 - orientation])
    exif = Image.Exif()
    exif[pictures.ORIENTATION_TAG] = orientation
    assert prepare(encoded(stored, exif=exif), "turned.png").tobytes() == upright.tobytes()


def test_metadata_that_cannot_be_read_does_not_cost_the_picture():
    assert prepare(encoded(plain(), "JPEG", exif=b"Exif\0\0garbage"), "one.jpg").size == (8, 6)


def test_a_bomb_is_refused_by_its_header_even_if_pillow_would_let_it_pass(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(pictures, "MAX_PIXELS", 47)
    monkeypatch.setattr(pictures, "_decode", lambda image: pytest.fail("decoded"))
    with pytest.raises(PictureError) as refusal:
        prepare(encoded(plain()), "bomb.png")
    assert str(refusal.value) == "picture bomb.png claims more than 47 pixels; scale it down or take it out"


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"%!PS-Adobe-3.0 EPSF-3.0", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture_is_named_in_one_sentence(data):
    with pytest.raises(PictureError) as refusal:
        prepare(data, "pets/odd.png")
    message = str(refusal.value)
    assert message.startswith("picture pets/odd.png ")
    assert "\n" not in message


def test_a_picture_cut_short_is_refused_in_a_pack_as_in_a_folder(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    cut = encoded(Image.fromarray(noise), "JPEG")[:-900]
    (tmp_path / "cut.jpg").write_bytes(cut)
    write_pack(tmp_path / "pack.zip", [("cut.jpg", cut)])
    for root in (tmp_path, tmp_path / "pack.zip"):
        with pytest.raises(PictureError, match=r"picture cut.jpg cannot be read \(.*truncated"):
            open_pictures(root).load("cut.jpg")


@pytest.mark.parametrize(
    "path", ["../secret.png", "a/../../secret.png", "/etc/passwd", "", "a\\..\\b.png", "a\0"]
)
def test_no_path_leaves_the_root(tmp_path, path):
    (tmp_path / "secret.png").write_bytes(encoded(plain()))
    (tmp_path / "inside").mkdir()
    write_pack(tmp_path / "pack.zip", [("a.png", encoded(plain()))])
    for root in (tmp_path / "inside", tmp_path / "pack.zip"):
        with pytest.raises(PictureError, match="leaves the picture folder"):
            open_pictures(root).load(path)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_followed(tmp_path):
    (tmp_path / "secret.png").write_bytes(encoded(plain()))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "one.png").write_bytes(encoded(plain()))
    (inside / "same.png").symlink_to(inside / "one.png")
    (inside / "out.png").symlink_to(tmp_path / "secret.png")
    folder = open_pictures(inside)
    assert folder.sha256("same.png") == folder.sha256("one.png")
    with pytest.raises(PictureError, match=r"picture out.png is a link out of"):
        folder.load("out.png")


def test_a_missing_picture_or_root_is_named(tmp_path):
    write_pack(tmp_path / "pack.zip", [("a.png", encoded(plain()))])
    (tmp_path / "notes.txt").write_text("no zip")
    with pytest.raises(PictureError, match=r"picture dogs/b.png does not exist in .*; correct the folder"):
        open_pictures(tmp_path).load("dogs/b.png")
    with pytest.raises(PictureError, match=r"picture dogs/b.png is not in pack.zip; correct the manifest"):
        open_pictures(tmp_path / "pack.zip").load("dogs/b.png")
    with pytest.raises(FileNotFoundError, match=r"picture folder .*nowhere is missing"):
        open_pictures(tmp_path / "nowhere")
    with pytest.raises(PictureError, match=r"neither a folder nor a .zip pack"):
        open_pictures(tmp_path / "notes.txt")


def test_a_file_far_too_large_is_not_even_read(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_BYTES", 10)
    (tmp_path / "large.png").write_bytes(encoded(plain()))
    write_pack(tmp_path / "pack.zip", [("large.png", encoded(plain()))])
    for root in (tmp_path, tmp_path / "pack.zip"):
        with pytest.raises(PictureError, match=r"picture large.png has \d+ bytes, at most 10 are read"):
            open_pictures(root).load("large.png")


def test_the_hash_is_of_the_prepared_pixels_and_their_shape(tmp_path):
    for name, data in {
        "one.png": encoded(plain()),
        "two.bmp": encoded(plain(), "BMP"),
        "wide.png": encoded(plain(size=(6, 8))),
    }.items():
        (tmp_path / name).write_bytes(data)
    folder = open_pictures(tmp_path)
    assert folder.sha256("one.png") == folder.sha256("two.bmp") == picture_hash(plain())
    assert folder.sha256("wide.png") != folder.sha256("one.png")


def test_a_pack_is_the_same_bytes_every_time_and_reads_like_the_folder(tmp_path):
    items = [(f"dogs/{colour}.png", encoded(plain(colour))) for colour in ("red", "green", "blue")]
    write_pack(tmp_path / "one.zip", iter(items))
    write_pack(tmp_path / "two.zip", items)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    pack = open_pictures(tmp_path / "one.zip")
    assert [pack.sha256(name) for name, _ in items] == [
        picture_hash(plain(c)) for c in ("red", "green", "blue")
    ]
    with zipfile.ZipFile(tmp_path / "one.zip") as stored:
        assert {entry.compress_type for entry in stored.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.date_time for entry in stored.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("names", "told"), [(["a", "a"], "comes twice"), (["../a"], "leaves the picture folder")]
)
def test_a_pack_with_a_wrong_name_is_not_written(tmp_path, names, told):
    with pytest.raises(PictureError, match=told):
        write_pack(tmp_path / "pack.zip", [(name, b"x") for name in names])
    assert list(tmp_path.iterdir()) == []


def test_many_threads_decode_at_a_time_and_leave_the_filters_of_warnings_alone():
    odd = encoded(plain(size=(64, 64)), "JPEG")[:-2] + b"\0\0 rubbish \xff\xd9"
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        decoded = [*threads.map(lambda n: prepare(odd, f"{n}.jpg").size, range(200))]
    assert set(decoded) == {(64, 64)} and warnings.filters == before
