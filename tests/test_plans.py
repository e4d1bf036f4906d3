import hashlib

import numpy as np
import pytest

from ask.elicitation import dense_pairs, estimate, stratified_groups
from ask.plans import (
    Block,
    PlanError,
    buffered_blocks,
    covering_blocks,
    distinct_pairs,
    live_pairs,
    random_blocks,
    scored_matrix,
    sorted_blocks,
)
from ask.published import published

PAPER = [f"breed-{row // 40:02}" for row in range(1000)]  # 25 classes of 40 images
HASHES = [hashlib.sha256(str(row).encode()).hexdigest() for row in range(1000)]
GROUPS = stratified_groups(PAPER, range(1000), groups=93, seed=0)
SCORED = scored_matrix(((p.first_row, p.second_row) for p in dense_pairs(GROUPS, HASHES)), 1000)
PLANS = {
    "Sparse 15 (random pairs)": lambda: random_blocks(SCORED, blocks=400, seed=0),
    "All cached pairs per block": lambda: random_blocks(SCORED, blocks=400, seed=0, pairs=None),
    "Wider blocks (64 images)": lambda: random_blocks(SCORED, blocks=400, seed=0, size=64, pairs=30),
    "Single pass (each block once)": lambda: random_blocks(SCORED, blocks=3000, seed=0),
    "Sparse 15 (image coverage)": lambda: covering_blocks(SCORED, blocks=400, seed=0),
    "Sliding buffer (200 images)": lambda: buffered_blocks(SCORED, blocks=400, seed=0),
    "Breed-sorted blocks": lambda: sorted_blocks(SCORED, PAPER, blocks=400, seed=0),
    "Same blocks, shuffled order": lambda: sorted_blocks(SCORED, PAPER, blocks=400, seed=0, shuffled=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_papers_budgets_come_out_within_three_per_cent(name):
    blocks = PLANS[name]()
    update = published("16", name, "Distinct judgments / Update pairs")
    total = published("16", name, "Distinct judgments / Total pairs")
    assert len(distinct_pairs(blocks)) == pytest.approx(update, rel=0.03)
    assert len(distinct_pairs(blocks, GROUPS[:20])) == pytest.approx(total, rel=0.03)


@pytest.mark.parametrize("name", PLANS)
def test_only_scored_pairs_count_each_once_and_the_same_seed_gives_the_same_plan(name):
    blocks, again = PLANS[name](), PLANS[name]()
    assert all(np.array_equal(a.pairs, b.pairs) for a, b in zip(blocks, again, strict=True))
    for block in blocks[:50]:
        assert len(np.unique(block.rows)) == len(block.rows)
        assert len({tuple(pair) for pair in block.pairs}) == len(block.pairs)
        assert SCORED[block.rows[block.pairs[:, 0]], block.rows[block.pairs[:, 1]]].all()
        assert (block.pairs[:, 0] < block.pairs[:, 1]).all()


def test_about_45_pairs_of_a_random_block_are_scored():
    blocks = random_blocks(SCORED, blocks=400, seed=0, pairs=None)
    assert np.mean([len(block.pairs) for block in blocks]) == pytest.approx(45, abs=2)


def test_covering_pairs_show_more_pictures_than_random_ones():
    def shown(blocks):
        return np.mean([len(np.unique(block.pairs)) for block in blocks])

    assert shown(covering_blocks(SCORED, blocks=100, seed=0)) > 1.15 * shown(
        random_blocks(SCORED, blocks=100, seed=0)
    )


def test_shuffled_blocks_are_the_same_blocks_in_another_order():
    plain, shuffled = PLANS["Breed-sorted blocks"](), PLANS["Same blocks, shuffled order"]()
    assert [tuple(block.rows) for block in plain] != [tuple(block.rows) for block in shuffled]
    assert {tuple(block.rows) for block in plain} == {tuple(block.rows) for block in shuffled}


def test_a_mask_holds_both_orders_and_no_picture_with_itself():
    mask = Block(np.array([7, 3, 9]), np.array([[0, 2]])).mask()
    assert mask.tolist() == [[False, False, True], [False, False, False], [True, False, False]]


def test_a_live_plan_buys_its_blocks_and_the_calibration_groups_once():
    blocks = random_blocks(~np.eye(1000, dtype=bool), blocks=400, seed=0)
    bought = live_pairs(blocks, GROUPS[:20], HASHES)
    assert len(bought) == len({(pair.first, pair.second) for pair in bought})
    assert len(bought) == len(distinct_pairs(blocks, GROUPS[:20])) < 400 * 15 + 20 * 496


def test_too_few_pictures_or_scores_are_counted():
    with pytest.raises(PlanError, match="200 pictures at a time were asked for, but there are 40"):
        buffered_blocks(scored_matrix([(0, 1)], 40), blocks=2, seed=0)
    with pytest.raises(PlanError, match="none of the pairs of 32 pictures is scored"):
        random_blocks(scored_matrix([], 40), blocks=2, seed=0)


JUDGES = ["Qwen3.5-397B", "GPT-5.6 Sol", "Kimi-K3", "Claude Sonnet 5", "Qwen3.8-27B", "Gemma 4 12B"]


@pytest.mark.parametrize("judge", JUDGES)
def test_the_papers_quotes_come_out(judge):
    price = {
        "input_price": published("15", judge, "USD per M input tokens"),
        "output_price": published("15", judge, "USD per M output tokens"),
        "latency": published("15", judge, "P50 latency (s)"),
        "speed": published("15", judge, "Output tokens/s"),
    }
    low, high = (
        estimate(44_450, input_tokens=n, output_tokens=2, concurrency=10, **price) for n in (300, 700)
    )
    assert low.cost == pytest.approx(published("15", judge, "Est. cost low (USD)"), abs=0.051)
    assert high.cost == pytest.approx(published("15", judge, "Est. cost high (USD)"), abs=0.051)
    assert low.seconds / 3600 == pytest.approx(published("15", judge, "Est. time (h)"), abs=0.051)


def test_judging_all_held_out_pairs_too_makes_it_seventeen_tenths():
    assert pytest.approx(1.70, abs=0.005) == (44_450 + 250 * 249 // 2) / 44_450
