"""Pictures of the miniature: deterministic, and every factor is visible."""

import numpy as np
import pandas as pd
import pytest

from ask.datasets import factors, render

ROW = pd.Series(
    {
        "domain": "critters",
        "silhouette": "ball",
        "lobes": 2,
        "texture": "striped",
        "colour": "red",
        "accent": "white",
        "rotation": 0.0,
        "flip": 0,
        "scale": 0.6,
        "x": 0.0,
        "y": 0.0,
        "brightness": 1.0,
        "warmth": 0.0,
        "background": "meadow",
    }
)


def draw(**changes):
    return render.picture(pd.Series({**ROW, **changes}), np.random.default_rng(0))


def test_a_picture_is_96_pixels_of_rgb():
    assert draw().shape == (96, 96, 3)
    assert draw().dtype == np.uint8


def test_the_same_stream_gives_the_same_bytes():
    assert np.array_equal(draw(), draw())


@pytest.mark.parametrize(
    "change",
    [
        {"domain": "carts"},
        {"silhouette": "star"},
        {"lobes": 6},
        {"texture": "spotted"},
        {"colour": "blue"},
        {"accent": "black"},
        {"rotation": 65.0},
        {"flip": 1},
        {"scale": 0.45},
        {"x": 0.2},
        {"brightness": 0.7},
        {"warmth": 0.8},
        {"background": "night"},
    ],
)
def test_every_factor_changes_what_is_seen(change):
    difference = np.abs(draw().astype(int) - draw(**change).astype(int)).mean()
    assert difference > 0.8, f"{change} moves a pixel by {difference:.2f} of 255 only"


@pytest.mark.parametrize("silhouette", factors.SILHOUETTES)
@pytest.mark.parametrize("domain", factors.DOMAINS)
def test_every_body_can_be_drawn_everywhere(silhouette, domain):
    for scene, texture in zip(factors.SCENES, factors.TEXTURES, strict=True):
        drawn = draw(silhouette=silhouette, domain=domain, background=scene, texture=texture)
        assert drawn.std() > 10


def test_brightness_is_brightness():
    assert draw(brightness=1.2).mean() > draw(brightness=0.7).mean() + 20


def test_warm_light_is_redder_than_cold():
    warm, cold = (draw(warmth=w).reshape(-1, 3).mean(0) for w in (1.0, -1.0))
    assert warm[0] - warm[2] > cold[0] - cold[2] + 20
