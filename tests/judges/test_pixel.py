import hashlib

import numpy as np
import pytest
from PIL import Image

from ask.datasets.pictures import open_pictures
from ask.judges import JudgeError, Pair
from ask.judges.pixel import CRITERION, Pixel, measure, similarity
from ask.judges.table import to_columns
from ask.judges.verdict import PROBABILITIES, expected

COLOURS = {"red": (200, 40, 40), "brick": (180, 50, 45), "blue": (40, 40, 200), "night": (12, 12, 40)}


def picture(colour, grain=20, seed=0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(-grain, grain + 1, (48, 64, 3))
    return Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8))


@pytest.fixture
def folder(tmp_path):
    for name, colour in COLOURS.items():
        picture(colour).save(tmp_path / f"{name}.png")
    return open_pictures(tmp_path)


def pixel(folder, entry=None, criterion=CRITERION) -> Pixel:
    return Pixel("eye", entry or {"kind": "pixel"}, criterion, folder, [f"{name}.png" for name in COLOURS])


def pair(folder, first: str, second: str) -> Pair:
    rows = [list(COLOURS).index(name) for name in (first, second)]
    return Pair(folder.sha256(f"{first}.png"), folder.sha256(f"{second}.png"), *rows)


def score(replies) -> list[float]:
    return expected(to_columns(replies)[PROBABILITIES].to_numpy()).tolist()


def test_like_colours_score_high_and_unlike_ones_low(folder):
    asked = [pair(folder, "red", other) for other in ("brick", "blue", "night")]
    brick, blue, night = score(pixel(folder).answer(asked))
    assert brick > 6
    assert max(blue, night) < 2.5


def test_light_counts_beside_colour():
    dim, bright, dimmer = (measure(picture((level,) * 3))[None] for level in (80, 200, 70))
    assert similarity(dim, dimmer) > 0.9 > 0.5 > similarity(dim, bright)


def test_neither_size_nor_order_changes_the_verdict(folder):
    image = picture(COLOURS["red"], grain=0)
    assert measure(image.resize((640, 480))) == pytest.approx(measure(image), abs=1e-6)
    one, other = (
        pixel(folder).answer([pair(folder, *names)]) for names in (("red", "blue"), ("blue", "red"))
    )
    assert one == other


def test_the_similarity_is_a_kernel():
    rng = np.random.default_rng(0)
    seen = np.stack([measure(picture(rng.integers(0, 256, 3), seed=n)) for n in range(24)])
    matrix = similarity(seen[:, None], seen[None])
    assert np.allclose(matrix.diagonal(), 1)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9


def test_each_picture_is_opened_once(folder, monkeypatch):
    opened = []
    load = folder.load
    asked = [pair(folder, "red", "blue"), pair(folder, "red", "night"), pair(folder, "blue", "night")]
    monkeypatch.setattr(folder, "load", lambda path: opened.append(path) or load(path))
    eye = pixel(folder)
    eye.answer(asked)
    eye.answer(asked)
    assert sorted(opened) == ["blue.png", "night.png", "red.png"]


def test_the_measurements_under_this_rule_version_are_pinned():
    ramp = Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint32).reshape(64, 64, 3).astype(np.uint8))
    found = hashlib.sha256(" ".join(f"{value:.6f}" for value in measure(ramp)).encode()).hexdigest()[:16]
    assert found == "996b18181c8989a6", "the rule changed: raise RULE in ask/judges/pixel.py, then pin this"


def test_another_criterion_or_setting_is_refused(folder):
    with pytest.raises(
        JudgeError, match="judge eye measures 'colour and lighting' only, but was asked for 'breed'"
    ):
        pixel(folder, criterion="breed")
    with pytest.raises(JudgeError, match="judge eye has no setting 'noise'; a pixel judge knows spread"):
        pixel(folder, {"kind": "pixel", "noise": 1})
    with pytest.raises(JudgeError, match="spread of judge eye must be a number > 0, but is '1e-1'"):
        pixel(folder, {"kind": "pixel", "spread": "1e-1"})
