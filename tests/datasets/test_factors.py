"""The miniature's vocabulary and its graded truth."""

import numpy as np
import pandas as pd
import pytest

from ask.datasets import factors


def pictures(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return factors.species(rng, n).join(factors.views(rng, n))


@pytest.mark.parametrize("criterion", factors.CRITERIA)
def test_a_picture_is_wholly_like_itself(criterion):
    found = factors.similarity(criterion, pictures(), pictures())
    assert np.allclose(found, 1.0)


@pytest.mark.parametrize("criterion", factors.CRITERIA)
def test_similarity_is_symmetric_and_stays_in_range(criterion):
    first, second = pictures(seed=1), pictures(seed=2)
    one, other = factors.similarity(criterion, first, second), factors.similarity(criterion, second, first)
    assert np.allclose(one, other)
    assert one.min() >= 0 and one.max() <= 1 and one.std() > 0.05


def test_a_criterion_sees_only_its_own_factors():
    first, second = pictures(seed=1), pictures(seed=2)
    moved = second.assign(
        rotation=first["rotation"], background=first["background"], brightness=1.0, warmth=0.0
    )
    for criterion in ("breed", "texture"):
        same = factors.similarity(criterion, first, second) == factors.similarity(criterion, first, moved)
        assert same.all()
    assert (factors.similarity("background", first, moved) == 1).all()


def test_an_unknown_criterion_lists_the_known():
    with pytest.raises(
        ValueError, match="must be one of breed, colour, pose, texture, background, but is 'smell'"
    ):
        factors.similarity("smell", pictures(), pictures())


def test_colour_and_accent_differ_and_stay_in_the_palette():
    found = factors.species(np.random.default_rng(0), 300, "critters", ("brown", "white", "black"))
    assert (found["colour"] != found["accent"]).all()
    assert set(found["colour"]) | set(found["accent"]) == {"brown", "white", "black"}
    assert set(found["domain"]) == {"critters"}


def test_a_name_says_every_fixed_factor():
    row = pd.Series(
        {
            "domain": "moths",
            "silhouette": "star",
            "lobes": 3,
            "texture": "wavy",
            "colour": "red",
            "accent": "blue",
        }
    )
    assert factors.name(row) == "wavy red and blue star moth with three lobes"
    assert factors.name(row.replace("wavy", "plain")) == "plain red star moth with three lobes"


@pytest.mark.parametrize(
    ("rotation", "told"), [(-70.0, "leaning left"), (20.0, "upright"), (80.0, "leaning right")]
)
def test_a_rotation_has_the_name_of_the_nearest_pose(rotation, told):
    assert factors.pose(rotation) == told


def test_captions_say_only_what_is_true():
    rng = np.random.default_rng(0)
    for row in pictures(300).itertuples():
        said = factors.caption(row, rng)
        for scene, (words, _) in factors.SCENES.items():
            assert words not in said or scene == row.background
        for texture in factors.TEXTURES[1:]:  # "plain" may also be said of the light
            assert texture not in said or texture == row.texture
