import base64
import io
import re
from pathlib import Path

import cases
import numpy as np
import pytest
from PIL import Image

from ask.datasets.pictures import PictureError, open_pictures, prepare
from ask.judges import JudgeError
from ask.judges.encoding import EncodedPictures, Preparation, data_url, encode

AWKWARD = Path(__file__).parents[2].parent / "shared" / "cases" / "awkward"


def noise(width, height, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def sent(image, **changes):
    return Image.open(io.BytesIO(encode(image, Preparation(**changes), "one.png")))


def prepared_as(case, data):
    """What a case's picture becomes under the case's own policy."""
    policy = {name: case["payload"]["policy"][name] for name in ("max_side", "min_side", "max_aspect")}
    name = case["payload"].get("filename", "a.png")
    return encode(prepare(data, name), Preparation(**policy), name)


SINGLE = [case for case in cases.CASES if case["kind"] == "image" and "data_b64" in case["payload"]]


@pytest.mark.filterwarnings("ignore::ask.datasets.pictures.DamagedPictureWarning")
@pytest.mark.parametrize("case", SINGLE, ids=[case["id"] for case in SINGLE])
def test_pictures_from_practice_are_sent_as_they_look_or_refused(case):
    wanted = case["expected"]
    try:
        data = prepared_as(case, base64.b64decode(case["payload"]["data_b64"]))
    except PictureError:
        assert "skip" in [wanted["outcome"], *(other["outcome"] for other in case.get("alternatives", []))]
        return
    assert wanted["outcome"] == "ok" or {"outcome": "ok"} in case.get("alternatives", [])
    image = Image.open(io.BytesIO(data))
    assert f"image/{image.format.lower()}" in wanted.get("sent_mime_in", ["image/png", "image/jpeg"])
    assert image.mode == "RGB" and image.getexif().get(0x0112) in (None, 1)
    for name, found in (("width", image.width), ("height", image.height)):
        assert wanted.get(name, found) == found
        assert wanted.get(f"{name}_min", 0) <= found <= wanted.get(f"{name}_max", found)
    for x, y, colour in wanted.get("pixels", []):
        assert np.abs(np.subtract(image.getpixel((x, y)), colour)).max() <= wanted["tol"]


def test_a_large_picture_is_made_smaller_and_a_tiny_one_larger():
    assert sent(noise(4000, 3000)).size == (512, 384)
    assert sent(noise(20, 10)).size == (64, 32)
    assert sent(noise(1, 1)).size == (32, 32)
    assert sent(noise(100, 80)).size == (100, 80)


def test_no_side_leaves_the_limits_however_long_the_picture_is():
    assert sent(noise(5000, 60)).size == (512, 32)
    with pytest.raises(
        PictureError, match=r"picture one.png is 5000 x 10, more than 100 times as long as wide"
    ):
        sent(noise(5000, 10))


def test_small_files_are_sent_losslessly_and_large_ones_as_jpeg():
    flat = Image.new("RGB", (300, 200), (10, 20, 30))
    assert sent(flat).format == "PNG" and sent(flat).getpixel((5, 5)) == (10, 20, 30)
    assert sent(noise(300, 200)).format == "JPEG"


def test_nothing_but_the_picture_is_sent():
    image = noise(60, 40)
    image.info = {"comment": b"secret", "exif": b"Exif\x00\x00secret", "icc_profile": b"secret"}
    for limit in (1, 1 << 20):
        assert b"secret" not in encode(image, Preparation(png_bytes=limit), "one.png")
    assert image.info["comment"] == b"secret"


def test_the_same_picture_gives_the_same_bytes():
    assert encode(noise(300, 200), Preparation(), "a") == encode(noise(300, 200), Preparation(), "b")


def test_a_data_url_is_one_line_of_the_type_that_the_bytes_have():
    for limit, kind in ((1, "jpeg"), (1 << 20, "png")):
        url = data_url(encode(noise(200, 200), Preparation(png_bytes=limit), "a"))
        assert re.fullmatch(rf"data:image/{kind};base64,[A-Za-z0-9+/]+={{0,2}}", url)


def test_all_refused_pictures_are_counted_before_anything_is_asked(tmp_path):
    for row in range(9):
        noise(40, 40, row).save(tmp_path / f"{row}.png")
        if row % 2:
            (tmp_path / f"{row}.png").write_bytes(b"no picture")
    pictures = EncodedPictures(open_pictures(tmp_path), [f"{row}.png" for row in range(9)], Preparation())
    pictures.check([0, 2])
    with pytest.raises(PictureError, match=r"4 pictures cannot be sent, nothing was asked: picture 1\.png"):
        pictures.check(range(9))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_side": 0}, "max_side must be a positive"),
        ({"min_side": 600}, "min_side 600 is above max_side 512"),
        ({"quality": "high"}, "quality must be a positive number, but is 'high'"),
    ],
)
def test_a_preparation_that_cannot_be_is_refused(changes, told):
    with pytest.raises(JudgeError, match=told):
        Preparation(**changes)


@pytest.mark.skipif(
    not AWKWARD.is_dir(), reason="the awkward pictures are third-party and not in this repository"
)
@pytest.mark.filterwarnings("ignore::ask.datasets.pictures.DamagedPictureWarning")
def test_every_awkward_picture_that_loads_can_be_sent():
    pictures = open_pictures(AWKWARD)
    for path in sorted(AWKWARD.iterdir()):
        try:
            image = pictures.load(path.name)
        except PictureError:
            continue
        assert data_url(encode(image, Preparation(), path.name)).startswith("data:image/")
