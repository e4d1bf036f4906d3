import hashlib
import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from ask.datasets import factors
from ask.digest import sha256
from ask.elicitation import dense_pairs, stratified_groups, swapped
from ask.judges import JudgeError
from ask.judges.simulated import Simulated
from ask.judges.table import to_columns
from ask.judges.verdict import PROBABILITIES, argmax, expected
from ask.kernels import negative_mass

SHARP = {"kind": "simulated", "spread": 0.6}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    kinds = factors.species(rng, 12, "critters").assign(label=[f"c{n:02}" for n in range(12)])
    table = kinds.loc[np.repeat(kinds.index, 12)].reset_index(drop=True)
    return pd.concat([table, factors.views(rng, len(table))], axis=1)


@pytest.fixture(scope="module")
def hashes(world):
    return [hashlib.sha256(str(row).encode()).hexdigest() for row in world.index]


@pytest.fixture(scope="module")
def groups(world):
    return stratified_groups(world["label"], world.index, groups=4, seed=0)


@pytest.fixture(scope="module")
def pairs(groups, hashes):
    return dense_pairs(groups, hashes)


def judge(world, entry=SHARP, criterion="breed", name="one", seed=0) -> Simulated:
    return Simulated(name, entry, criterion, world, seed=seed)


def digits(judge, pairs) -> np.ndarray:
    return to_columns(judge.answer(pairs))[PROBABILITIES].to_numpy()


def truth(world, pairs, criterion="breed"):
    rows = ([p.first_row for p in pairs], [p.second_row for p in pairs])
    return factors.similarity(criterion, *(world.iloc[row] for row in rows))


@pytest.mark.parametrize("criterion", factors.CRITERIA)
def test_without_noise_the_verdicts_rank_as_the_truth(world, pairs, criterion):
    judged = expected(digits(judge(world, criterion=criterion), pairs))
    assert spearmanr(judged, truth(world, pairs, criterion)).statistic > 0.98


def test_noise_lowers_the_agreement_and_is_the_same_in_either_order(world, pairs):
    noisy = judge(world, SHARP | {"noise": 1.0})
    judged = digits(noisy, pairs)
    assert 0.4 < spearmanr(expected(judged), truth(world, pairs)).statistic < 0.95
    assert np.array_equal(digits(noisy, swapped(pairs)), judged, equal_nan=True)


def test_order_bias_changes_sign_with_the_order(world, pairs):
    biased = judge(world, SHARP | {"order_bias": 0.5})
    plain = expected(digits(judge(world), pairs))
    one, other = (expected(digits(biased, order)) - plain for order in (pairs, swapped(pairs)))
    inside = (plain > 3) & (plain < 7)  # nothing is cut at the ends of the scale
    assert np.abs(one[inside]).mean() > 0.2
    assert np.abs(one + other)[inside].mean() < 0.02


def test_an_answer_depends_on_nothing_but_the_pair(world, pairs):
    asked = judge(world, SHARP | {"noise": 0.5}).answer(pairs)
    again = judge(world, SHARP | {"noise": 0.5}).answer(pairs[::-1])
    assert again[::-1] == asked
    assert judge(world, SHARP | {"noise": 0.5}, seed=1).answer(pairs) != asked
    assert judge(world, SHARP | {"noise": 0.5}, name="two").answer(pairs) != asked


def test_another_spread_keeps_the_same_noise(world, pairs):
    wide, narrow = (expected(digits(judge(world, {"noise": 1.0, "spread": s}), pairs)) for s in (0.6, 0.8))
    assert spearmanr(wide, narrow).statistic > 0.99


def test_heaping_makes_the_likeliest_digit_coarser_than_the_expectation(world, pairs):
    heaped = digits(judge(world, {"spread": 1.2, "heaping": 2.0, "noise": 0.3}), pairs)
    assert set(argmax(heaped)) <= {2.0, 5.0, 8.0}
    assert len(set(expected(heaped).round(3))) > 500


def test_a_steep_judge_keeps_the_order_but_calls_kin_the_same(world, pairs, groups, hashes):
    plain, steep = judge(world, SHARP), judge(world, SHARP | {"steepness": 14.0, "middle": 0.4})
    before, after = (expected(digits(one, pairs)) for one in (plain, steep))
    inside = (after > 1.5) & (after < 8.5)  # where no end of the scale makes ties
    assert spearmanr(before[inside], after[inside]).statistic > 0.98
    assert (after[(before > 5.5) & (before < 8)] > before[(before > 5.5) & (before < 8)]).all()
    mass = [negative_mass(matrix(one, groups[0], hashes)).item() for one in (plain, steep)]
    assert mass[1] > 2 * mass[0]


def test_the_indefinite_judge_is_far_from_a_kernel_and_the_steady_one_near(world, groups, hashes):
    mass = {}
    for share in (0.0, 0.6):
        opinionated = judge(world, SHARP | {"indefinite": share}, criterion="pose")
        mass[share] = [negative_mass(matrix(opinionated, group, hashes)).item() for group in groups]
    assert np.mean(mass[0.0]) < 0.05
    assert min(mass[0.6]) > 0.2


def matrix(opinionated, group, hashes) -> torch.Tensor:
    position = {row: place for place, row in enumerate(group)}
    similarity = torch.eye(len(group), dtype=torch.float64)
    asked = dense_pairs([group], hashes)
    for pair, score in zip(asked, expected(digits(opinionated, asked)), strict=True):
        i, j = position[pair.first_row], position[pair.second_row]
        similarity[i, j] = similarity[j, i] = (score - 1) / 8
    return similarity


def test_a_judge_without_log_probabilities_says_its_likeliest_digit(world, pairs):
    shown = argmax(digits(judge(world), pairs))
    hidden = judge(world, SHARP | {"logprobs": False}).answer(pairs)
    assert all(reply.digits == {} for reply in hidden)
    assert [int(reply.text) for reply in hidden] == shown.tolist()


def test_the_identity_is_plain_json_and_holds_all_that_matters(world):
    one = judge(world).identity
    assert json.loads(json.dumps(one)) == one
    others = [
        judge(world, SHARP | {"noise": 0.1}),
        judge(world, seed=1),
        judge(world, criterion="pose"),
        judge(world, name="two"),
    ]
    assert len({sha256(other.identity) for other in others} | {sha256(one)}) == 5
    spelled_out = judge(world, {"spread": 0.6, "noise": 0, "logprobs": True})
    assert sha256(spelled_out.identity) == sha256(one)


def test_another_similarity_rule_is_another_judge(world, monkeypatch):
    before = judge(world).identity
    monkeypatch.setattr(factors, "similarity", lambda criterion, a, b: np.full(len(a), 0.5))
    assert judge(world).identity != before


def test_the_answers_under_this_rule_version_are_pinned(world, pairs, monkeypatch):
    monkeypatch.setattr(factors, "similarity", lambda criterion, a, b: np.linspace(0, 1, len(a)))
    entry = {"noise": 0.4, "order_bias": 0.2, "indefinite": 0.1, "heaping": 1.0}
    shown = [(reply.digits, reply.text) for reply in judge(world, entry).answer(pairs[:200])]
    found = hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
    assert found == "d58b45401e85120e", (
        "the rule changed: raise RULE in ask/judges/simulated.py, then pin this"
    )


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"nois": 1.0}, "judge one has no setting 'nois'; a simulated judge knows noise, order_bias"),
        ({"noise": "1e-1"}, "noise of judge one must be a number >= 0, but is '1e-1'"),
        ({"noise": -1}, "noise of judge one must be a number >= 0, but is -1"),
        ({"spread": 0}, "judge one needs spread > 0 and indefinite <= 1"),
        ({"indefinite": 1.5}, "judge one needs spread > 0 and indefinite <= 1"),
        ({"logprobs": "false"}, "logprobs of judge one must be true or false, but is 'false'"),
    ],
)
def test_a_wrong_setting_is_named(world, entry, told):
    with pytest.raises(JudgeError) as refusal:
        judge(world, entry)
    assert str(refusal.value).startswith(told)


def test_an_unknown_criterion_lists_the_known(world):
    with pytest.raises(ValueError, match="criterion must be one of breed, colour"):
        judge(world, criterion="smell")
