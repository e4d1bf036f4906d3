"""The benchmarks run at small sizes, agree with themselves, and count arithmetic as torch does."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from ask import lora
from ask.clip import tokenize
from ask.packing import pack
from ask.towers import image_features, text_features
from benchmarks import curves, floor, kernels, measure, projecting, retrieving
from tests import tiny

TEXTS = ["a photo of a cat", "a photo of a dog", "a cat"]


def counted(run):
    """Floating-point operations of the matrix products that torch sees; attention is not among them on a CPU."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("backward", [False, True])
def test_work_of_pictures_is_what_torch_counts_and_attention(backward):
    model, pixels = tiny.teach(lora.adapt(tiny.backbone().model, 4, 8.0, seed=0)), tiny.pixels()

    def run():
        features = image_features(model, pixels)
        if backward:
            features.square().sum().backward()

    width, n, length = 32, 3, 5
    attention = 4 * width * n * (length**2 + length)  # of the first block, and of the class token in the last
    work = floor.image_work(model, n, 4)
    assert counted(run) == (work.step - 3 * attention if backward else work.forward - attention)


def test_work_of_texts_is_what_torch_counts_and_attention_but_for_queries_of_the_last_block():
    backbone = tiny.backbone()
    model, tokens = tiny.teach(lora.adapt(backbone.model, 4, 8.0, seed=0)), tokenize(backbone, TEXTS)
    packed, width = pack(tokens), 32
    seen = int((packed.positions + 1).sum()) + int((packed.positions[packed.ends] + 1).sum())
    queries = (len(packed.tokens) - len(TEXTS)) * (2 * width**2 + 4 * width * 4)
    work = floor.text_work(model, packed, 4).forward - 4 * width * seen
    assert counted(lambda: text_features(model, tokens, packed)) == work + queries


def test_ways_are_run_in_turn_and_the_median_counts():
    told, order = {"a": iter([9, 1, 5, 3]), "b": iter([9, 2, 2, 2])}, []

    def way(name):
        order.append(name)
        return measure.Seconds(next(told[name]))

    found = measure.interleaved({"a": lambda: way("a"), "b": lambda: way("b")}, repeats=3)
    assert "".join(order) == "abababab"
    assert (found["a"].seconds, found["b"].seconds) == (3, 2)
    assert found["a"].spread == pytest.approx(4 / 3)
    rows = measure.table("x", found, ours="b")
    assert [row["times"] for row in rows] == [1.5, 1.0]
    assert "1.50" in measure.shown(rows)


def test_comparisons_agree_and_report_every_way():
    rows = [*retrieving.mean_average_precision(300, 10, 1), *projecting.projection(5, 1), *kernels.kernels(1)]
    assert {row["way"] for row in rows} >= {"ours", "numpy, a query at a time", "python, a pair at a time"}
    assert all(row["seconds"] > 0 for row in rows)


def test_a_rate_is_positive():
    assert measure.matmul_rate(64, 32, 32) > 0


@pytest.mark.slow
def test_curves_grow_over_the_sizes_that_are_asked_for():
    rows = curves.curves(most=1000)
    assert {row["size"] for row in rows} == {10, 93, 100, 300, 1000}
    assert len({row["what"] for row in rows}) == 9
