import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from ask.figures import save
from ask.galleries import BARS, QUERY, RIGHT, WRONG, Shelf, comparison, contact_sheet, gallery, pair_strip


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def plain(colour, size=(30, 20)):
    return Image.new("RGB", size, colour)


def frames(ax, colour):
    patches = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    return [patch for patch in patches if to_hex(patch.get_edgecolor()) == colour and not patch.get_fill()]


def said(ax):
    return [text.get_text() for text in ax.texts]


def centre(image):
    left, right, bottom, top = image.get_extent()
    return (left + right) / 2, (bottom + top) / 2


@pytest.fixture
def shelves():
    pictures = [[plain("red"), plain("blue"), plain("white")] for _ in range(2)]
    marked = Shelf("untrained", pictures, [[True, False, False], [True, True, False]])
    return [marked, Shelf("ASK pose", pictures)]


def test_every_row_of_a_gallery_shows_each_query_in_teal_and_its_neighbours(shelves):
    ax = gallery([plain("black"), plain("grey")], shelves, note="where from")
    assert len(ax.images) == 2 * 2 * (1 + 3)
    assert len(frames(ax, QUERY)) == 2 * 2
    assert {"untrained", "ASK pose", "where from"} <= set(said(ax))


def test_neighbours_stand_in_their_order_to_the_right_of_their_query(shelves):
    ax = gallery([plain("black")], [Shelf("one", [[plain("red"), plain("blue")]])])
    placed = sorted((centre(image)[0], tuple(image.get_array()[0, 0])) for image in ax.images)
    assert [colour for _, colour in placed] == [(0, 0, 0), (255, 0, 0), (0, 0, 255)]


def test_right_and_wrong_differ_in_colour_sign_line_and_shape(shelves):
    ax = gallery([plain("black"), plain("grey")], shelves)
    right, wrong = frames(ax, RIGHT), frames(ax, WRONG)
    assert (len(right), len(wrong)) == (said(ax).count("✓"), said(ax).count("✗")) == (3, 3)
    assert {patch.get_linestyle() for patch in right}.isdisjoint({patch.get_linestyle() for patch in wrong})
    boxes = {
        text.get_text(): type(text.get_bbox_patch().get_boxstyle())
        for text in ax.texts
        if text.get_bbox_patch()
    }
    assert boxes["✓"] is not boxes["✗"]


def test_a_shelf_that_does_not_say_what_is_right_has_no_marks(shelves):
    ax = gallery([plain("black"), plain("grey")], shelves[1:])
    assert not frames(ax, RIGHT) and not frames(ax, WRONG)
    assert not {"✓", "✗"} & set(said(ax))


def test_a_comparison_shows_its_query_once_and_as_high_as_a_column(shelves):
    ax = comparison(plain("black"), shelves)
    query, column = ax.images[0], ax.images[1:4]
    assert len(ax.images) == 1 + 2 * 3
    assert len({round(centre(image)[0], 6) for image in column}) == 1
    assert [centre(image)[1] for image in column] == sorted(centre(image)[1] for image in column)
    assert query.get_extent()[2:] == pytest.approx((column[-1].get_extent()[2], column[0].get_extent()[3]))


def test_bars_are_as_high_as_their_probabilities_and_the_score_stands_between_digits():
    digits = np.array([[0.5, 0.25, np.nan], [np.nan, np.nan, 1.0]])
    pairs = [(plain("red"), plain("blue"))] * 2
    ax = pair_strip(pairs, digits, np.array([1.4, 3.0]), titles=["low", "high"])
    bars = [patch for patch in ax.patches if to_hex(patch.get_facecolor()) == BARS and patch.get_fill()]
    heights = -np.array([bar.get_height() for bar in bars]).reshape(2, 3)
    np.testing.assert_allclose(heights / heights.max(), np.nan_to_num(digits))
    lines = [line for line in ax.lines if to_hex(line.get_color()) == QUERY]
    centres = [bar.get_x() + bar.get_width() / 2 for bar in bars[:2]]
    assert centres[0] < lines[0].get_xdata()[0] < np.mean(centres)
    assert {"low", "high", "1.4", "3.0"} <= set(said(ax))


def test_a_reply_without_digits_or_score_is_shown_empty():
    ax = pair_strip(
        [(plain("red"), plain("blue"))], np.full((1, 9), np.nan), np.array([np.nan]), titles=["garbled"]
    )
    assert all(bar.get_height() == 0 for bar in ax.patches)
    assert "nan" not in said(ax)


def test_a_contact_sheet_fills_its_rows_from_the_left():
    ax = contact_sheet([plain("red")] * 5, columns=3, titles=["first", "second"])
    places = [tuple(np.round(centre(image), 2)) for image in ax.images]
    assert len({y for _, y in places}) == 2 and len({x for x, _ in places}) == 3
    assert places[3][0] == places[0][0]
    assert {"first", "second"} <= set(said(ax))


def test_a_wide_picture_is_cut_to_its_centre_and_not_squeezed():
    stripes = np.repeat(np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8), 40, axis=1)
    picture = Image.fromarray(np.repeat(stripes, 40, axis=0))  # red, green and blue, 40 pixels each
    shown = contact_sheet([picture], columns=1).images[0].get_array()
    assert shown.shape[0] == shown.shape[1]
    assert (shown[:, 10:-10] == (0, 255, 0)).all()  # the borders have a little of their neighbours


def test_a_long_title_is_broken_into_lines(shelves):
    ax = comparison(plain("black"), [Shelf("ASK colour and lighting", shelves[1].retrieved)])
    assert any("\n" in text for text in said(ax))


def test_figures_leave_the_style_of_others_as_it_was(shelves):
    before = dict(plt.rcParams)
    gallery([plain("black"), plain("grey")], shelves)
    assert dict(plt.rcParams) == before


def test_the_same_gallery_gives_the_same_bytes(shelves, tmp_path):
    for name in ("one.png", "two.png"):
        save(gallery([plain("black"), plain("grey")], shelves, note="where from"), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
