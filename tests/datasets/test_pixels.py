"""Pixels are those of the preprocessing to the bit, and their identity is that of files and preprocessing."""

import numpy as np
import pytest
import torch
from PIL import Image

from ask.datasets.pictures import open_pictures
from ask.datasets.pixels import Pixels
from tests import tiny

PATHS = np.array(["a.png", "b.png", "c.png"])


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    for path in PATHS:
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(tmp_path / path)
    return open_pictures(tmp_path)


@pytest.mark.parametrize("rows", [(), (2, 0)])
def test_pixels_are_those_of_the_preprocessing_to_the_bit(pictures, rows):
    preprocess = tiny.backbone().preprocess
    expected = torch.stack([preprocess(pictures.load(path)) for path in PATHS[[0, 2, 0]]])
    assert torch.equal(Pixels(pictures, PATHS, preprocess, rows=rows)([0, 2, 0]), expected)


def test_kept_pictures_are_bytes_and_read_once(pictures, monkeypatch):
    pixels = Pixels(pictures, PATHS, tiny.backbone().preprocess, rows=[1, 2])
    assert pixels._kept.dtype == torch.uint8
    monkeypatch.setattr(pictures, "load", lambda path: pytest.fail(f"{path} was read again"))
    assert pixels(np.array([2, 1])).shape == (2, 3, 32, 32)


def test_a_preprocessing_of_another_kind_is_kept_whole(pictures):
    pixels = Pixels(pictures, PATHS, lambda image: torch.tensor(np.array(image)[0]), rows=[0])
    assert pixels([0]).tolist() == [np.array(pictures.load("a.png"))[0].tolist()]
    assert pixels.identity([0]) is None


def test_identity_follows_files_order_and_preprocessing(pictures, tmp_path):
    preprocess = tiny.backbone().preprocess
    told = Pixels(pictures, PATHS, preprocess).identity([0, 1])
    assert told == Pixels(pictures, PATHS, preprocess, rows=[0]).identity(np.array([0, 1]))
    larger = tiny.backbone(vision_cfg=tiny.IMAGE | {"image_size": 64}).preprocess
    others = [
        Pixels(pictures, PATHS, preprocess).identity([1, 0]),
        Pixels(pictures, PATHS, preprocess).identity([0, 2]),
        Pixels(pictures, PATHS, larger).identity([0, 1]),
    ]
    Image.new("RGB", (40, 50)).save(tmp_path / "a.png")
    others.append(Pixels(open_pictures(tmp_path), PATHS, preprocess).identity([0, 1]))
    assert len({told, *others}) == 5
