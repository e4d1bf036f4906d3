import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from ask.tables import criteria_matrix, shaded_table


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


MEASURED = pd.DataFrame(
    {"mAP": [22.0, 60.0, 41.0, 22.01], "KL": [0.0, 0.2, 4.0, np.nan]},
    index=["untrained", "ask", "no anchor", "argmax"],
)


def written(axes):
    return [text.get_text() for text in axes.texts]


def bold(axes):
    return [text.get_text() for text in axes.texts if text.get_weight() == "bold"]


def shades(axes):
    """(row, column) of a shaded cell to its colour."""
    patches = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return {(int(patch.get_y()), int(patch.get_x())): patch.get_facecolor() for patch in patches}


def test_better_is_blue_and_up_worse_is_red_and_down():
    axes = shaded_table(MEASURED, reference="ask", lower=["KL"])
    found = shades(axes)
    for row, column, better in ((0, 0, False), (2, 0, False), (0, 1, True), (2, 1, False)):
        red, _, blue, _ = found[row, column]
        assert (blue > red) is better
    assert written(axes).count("▲") == 1
    assert written(axes).count("▼") == 4


def test_the_largest_difference_of_a_column_has_its_strongest_shade():
    axes = shaded_table(MEASURED, reference="untrained")
    assert min(shades(axes)[1, 0]) < min(shades(axes)[2, 0])


def test_the_reference_and_what_rounds_to_it_are_not_shaded():
    found = shades(shaded_table(MEASURED, reference="untrained"))
    assert (0, 0) not in found and (3, 0) not in found


def test_the_best_of_a_column_is_bold():
    assert bold(shaded_table(MEASURED, reference="untrained", lower=["KL"])) == ["mAP", "60.0", "KL", "0.0"]


def test_what_was_not_measured_is_a_dash():
    axes = shaded_table(MEASURED, reference="untrained")
    assert written(axes).count("–") == 1
    assert (3, 1) not in shades(axes)


def test_published_numbers_stand_beside_ours_where_the_paper_has_them():
    published = pd.DataFrame({"mAP": [22.06, 60.16]}, index=["untrained", "ask"])
    axes = shaded_table(MEASURED, reference="untrained", published=published, digits={"mAP": 2, "KL": 1})
    assert {"22.06", "60.16", "60.00", "0.2"} <= set(written(axes))
    assert "nan" not in written(axes)
    ours, theirs = (next(t for t in axes.texts if t.get_text() == value) for value in ("60.00", "60.16"))
    assert ours.get_position()[1] == theirs.get_position()[1]
    assert ours.get_position()[0] < theirs.get_position()[0]


def test_published_numbers_change_no_shade():
    published = pd.DataFrame({"mAP": [99.0]}, index=["untrained"])
    plain = shades(shaded_table(MEASURED, reference="untrained"))
    assert shades(shaded_table(MEASURED, reference="untrained", published=published)) == plain


def test_an_unknown_reference_row_names_the_rows():
    with pytest.raises(KeyError) as caught:
        shaded_table(MEASURED, reference="clip")
    assert "one of untrained, ask, no anchor, argmax, but is 'clip'" in str(caught.value)


def test_the_matching_student_is_outlined_and_the_best_of_a_column_is_bold():
    fidelity = pd.DataFrame(
        {"breed": [0.8, 0.1, 0.2], "pose": [0.3, 0.4, 0.5]}, index=["breed", "pose", "untrained"]
    )
    axes = criteria_matrix(fidelity, note="whose")
    corners = {(int(p.get_y()), int(p.get_x())) for p in axes.patches if isinstance(p, Rectangle)}
    assert corners == {(0, 0), (1, 1)}
    assert bold(axes) == ["0.80", "0.50"]
    assert axes.figure.get_supxlabel() == "whose"
    assert axes.collections[0].get_clim() == (0, 1)
