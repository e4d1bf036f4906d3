import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from ask.figures import curves, densities, heatmaps, save, spectrum, style


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def kernel(n=12, seed=0):
    values = np.random.default_rng(seed).random((n, n))
    return np.maximum(values, values.T) * (1 - np.eye(n)) + np.eye(n)


def shown(panel):
    return panel.images[0]


def test_a_row_of_kernels_shares_one_scale_and_the_residual_is_centred_at_zero():
    a, b = kernel(seed=0), kernel(seed=1)
    axes = heatmaps({"": {"untrained": a, "target": b, "residual": a - b}})
    assert axes.shape == (1, 3)
    first, second, residual = map(shown, axes[0])
    assert first.get_clim() == second.get_clim() == (0, 1)
    assert residual.get_clim() == (-1, 1)
    assert first.get_cmap().name == second.get_cmap().name != residual.get_cmap().name


def test_heatmaps_show_the_numbers_that_they_were_given():
    a = kernel()
    axes = heatmaps({"target": {"breed": a, "pose": torch.tensor(a)}, "residual": {"breed": a - a.T}})
    np.testing.assert_array_equal(shown(axes[0, 0]).get_array(), a)
    np.testing.assert_array_equal(shown(axes[0, 1]).get_array(), a)
    np.testing.assert_array_equal(shown(axes[1, 0]).get_array(), 0)


def test_rows_and_columns_are_named_once_and_a_missing_panel_stays_empty():
    axes = heatmaps({"kernel": {"target": kernel(), "ASK": kernel()}, "residual": {"ASK": kernel() * 0}})
    assert [panel.get_title() for panel in axes.flat] == ["target", "ASK", "", ""]
    assert [panel.get_ylabel() for panel in axes.flat] == ["kernel", "", "residual", ""]
    assert not axes[1, 0].images and not axes[1, 0].spines["left"].get_visible()


def test_class_borders_lie_between_the_last_image_of_one_and_the_first_of_the_next():
    classes = ["ant"] * 3 + ["bee"] * 5 + ["cat"] * 4
    axes = heatmaps({"": {"untrained": kernel(), "target": kernel()}}, classes=classes)
    for panel in axes[0]:
        assert list(panel.get_xticks(minor=True)) == list(panel.get_yticks(minor=True)) == [2.5, 7.5]
    assert [label.get_text() for label in axes[0, 0].get_yticklabels()] == ["ant", "bee", "cat"]
    assert list(axes[0, 0].get_yticks()) == [1, 5, 9.5]
    assert not axes[0, 1].get_yticklabels()


def test_more_classes_than_can_be_read_are_not_named():
    axes = heatmaps({"": {"target": kernel(60)}}, classes=[f"class {i:02d}" for i in range(60)])
    assert len(axes[0, 0].get_yticks(minor=True)) == 59
    assert not axes[0, 0].get_yticklabels()


@pytest.mark.parametrize(("n", "interpolation"), [(160, "nearest"), (250, "auto")])
def test_no_image_is_dropped_where_there_are_fewer_pixels_than_images(n, interpolation):
    axes = heatmaps({"": {"target": kernel(n)}})
    assert shown(axes[0, 0]).get_interpolation() == interpolation


def test_what_is_noted_stands_below_its_panel_and_below_the_figure():
    axes = heatmaps({"residual": {"pose": kernel()}}, notes={"residual": {"pose": "MSE 0.1"}}, note="whose")
    assert axes[0, 0].get_xlabel() == "MSE 0.1"
    assert axes[0, 0].figure.get_supxlabel() == "whose"


def test_densities_share_bins_and_each_integrates_to_one():
    rng = np.random.default_rng(0)
    pairs = {name: (rng.beta(8, 4, 50), rng.beta(2, 6, 900)) for name in ("untrained", "student")}
    axes = densities(pairs)
    outlines = [patch.get_path().vertices for panel in axes for patch in panel.patches]
    edges = [np.unique(outline[:, 0]) for outline in outlines]
    assert len(outlines) == 4
    assert all(np.isin(edge, np.linspace(0, 1, 41)).all() for edge in edges)
    for outline in outlines:
        x, y = outline.T
        assert abs(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2 == pytest.approx(1)  # area, by the shoelace formula
    assert axes[0].get_ylim() == axes[1].get_ylim()


def test_densities_say_how_far_the_means_are_apart():
    axes = densities({"target": (np.array([0.7, 0.9]), np.array([0.1, 0.2, 0.3]))})
    assert axes[0].get_title() == "target\nΔμ = 0.600"
    assert sorted(line.get_xdata()[0] for line in axes[0].lines) == pytest.approx([0.2, 0.8])


def test_densities_keep_what_is_below_zero():
    axes = densities({"student": (np.array([0.5, 0.9]), np.array([-0.3, 0.1]))})
    assert axes[0].get_xlim()[0] <= -0.3


def test_a_spectrum_falls_and_its_negative_part_is_marked():
    raw = np.array([[-0.5, 0.25, 3.0], [-0.25, 0.5, 2.0]])
    axes = spectrum(raw, raw.clip(0))
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["judged"].get_ydata(), [2.5, 0.375, -0.375])
    np.testing.assert_allclose(lines["projected"].get_ydata(), [2.5, 0.375, 0])
    assert list(lines["negative"].get_xdata()) == [3]


def test_a_spectrum_without_a_negative_part_has_no_mark():
    axes = spectrum(np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 1.0, 2.0]]))
    assert {line.get_label() for line in axes.lines} == {"judged", "projected"}


def test_curves_show_every_step():
    steps = np.arange(40)
    history = pd.DataFrame({"step": steps, "align": 1 / (steps + 1), "anchor": 0.0, "rate": 1e-3})
    align, anchor, rate = curves(history)
    np.testing.assert_array_equal(align.lines[0].get_ydata(), history["align"])
    np.testing.assert_array_equal(rate.lines[0].get_ydata(), history["rate"])
    assert anchor.get_ylabel() == "anchor (nats)"
    assert [panel.get_xlabel() for panel in (align, anchor, rate)] == ["step"] * 3


def test_the_style_is_local():
    before = dict(mpl.rcParams)
    curves(pd.DataFrame({"step": [0, 1], "align": [1, 0], "anchor": [0, 0], "rate": [1, 1]}))
    with pytest.raises(RuntimeError), style():
        raise RuntimeError
    assert dict(mpl.rcParams) == before


def test_the_style_leaves_it_to_the_notebook_whether_figures_are_shown():
    before = plt.isinteractive()
    with style():
        plt.interactive(not before)
    assert plt.isinteractive() is not before
    plt.interactive(before)


def test_ticks_are_made_while_the_style_holds():
    axes = curves(pd.DataFrame({"step": [0, 1], "align": [1, 0], "anchor": [0, 0], "rate": [1, 1]}))
    with style():
        wanted = plt.rcParams["xtick.major.size"]
    assert axes[0].xaxis.get_major_ticks()[0].tick1line.get_markersize() == wanted


def test_the_same_figure_is_saved_as_the_same_bytes_and_names_no_program(tmp_path):
    for name in ("one", "two"):
        save(heatmaps({"": {"target": kernel()}}, note="whose"), tmp_path / "figures" / f"{name}.png")
    one, two = ((tmp_path / "figures" / f"{name}.png").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith(b"\x89PNG") and b"Software" not in one


def test_a_single_axes_is_saved_too(tmp_path):
    save(spectrum(np.ones((2, 3)), np.ones((2, 3))), tmp_path / "spectrum.png")
    assert (tmp_path / "spectrum.png").stat().st_size > 0
