"""The training loop on a tiny CLIP: it learns, repeats to the bit, resumes to the bit, and obeys its anchor."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sources import imported

from ask import checkpoints, clip, lora, train
from ask.compute import Compute
from ask.kernels import Link, normalized_polynomial_kernel, target_kernel
from tests import tiny

LINK = Link(0.05, 0.5)
GROUPS = np.arange(12).reshape(3, 4)
RECIPE = train.Recipe(
    rank=4,
    alpha=8.0,
    steps=12,
    learning_rate=5e-3,
    weight_decay=1e-4,
    warmup=2,
    schedule="cosine",
    objective="kernel-mse",
    anchor="kl",
    anchor_weight=0.2,
    anchor_sample=3,
    seed=0,
)


def run(recipe=RECIPE, **changes):
    """Trains a fresh tiny student; returns it, its reference and the history."""
    base = tiny.backbone()
    reference = clip.frozen_reference(base.model)
    student = lora.adapt(base.model, recipe.rank, recipe.alpha, seed=recipe.seed)
    pictures, noise = tiny.pixels(12), torch.Generator().manual_seed(3)
    scores = torch.rand(3, 4, 4, generator=noise, dtype=torch.float64)
    similarity = (scores + scores.mT) / 2
    similarity.diagonal(dim1=1, dim2=2).fill_(1)
    given = {
        "pixels": lambda rows: pictures[rows],
        "groups": GROUPS,
        "targets": target_kernel(similarity),
        "link": LINK,
        "anchor_tokens": clip.tokenize(base, ["a cat", "a dog", "a red car", "two birds", "the sea"]),
        "recipe": recipe,
    }
    return student, reference, train.train(student, reference, **(given | changes))


def weights(student):
    return torch.cat([factor.detach().flatten() for factor in lora.factors(student).values()])


def test_the_kernel_loss_falls():
    history = run(replace(RECIPE, steps=60, anchor="none"))[2]
    assert np.mean([h["align"] for h in history[-6:]]) < 0.7 * np.mean([h["align"] for h in history[:6]])


def test_the_same_seed_gives_the_same_bits():
    assert torch.equal(weights(run()[0]), weights(run()[0]))


def test_another_seed_gives_other_weights():
    assert not torch.equal(weights(run()[0]), weights(run(replace(RECIPE, seed=1))[0]))


def test_an_interrupted_run_continues_to_the_same_bits(tmp_path):
    def stopping(steps):
        for step in steps:
            if step == 7:
                raise KeyboardInterrupt
            yield step

    checkpoint = tmp_path / "state.pt"
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=checkpoint, keep_every=5, progress=stopping)
    seen = []
    student, _, history = run(
        checkpoint=checkpoint, keep_every=5, progress=lambda steps: (seen.append(s) or s for s in steps)
    )
    whole, _, uninterrupted = run()
    assert seen == list(range(5, 12))
    assert torch.equal(weights(student), weights(whole))
    assert history == uninterrupted


def test_a_checkpoint_of_another_recipe_is_not_resumed(tmp_path):
    run(checkpoint=tmp_path / "state.pt", keep_every=4)
    other = replace(RECIPE, learning_rate=1e-3)
    student = run(other, checkpoint=tmp_path / "state.pt", keep_every=4)[0]
    assert torch.equal(weights(student), weights(run(other)[0]))


@pytest.mark.parametrize(
    "change",
    [
        {"pixels": lambda rows: 2 * tiny.pixels(12)[rows]},
        {"groups": GROUPS[::-1].copy()},
        {"targets": torch.eye(4).expand(3, 4, 4)},
        {"link": Link(0.05, 0.4)},
        {"labels": np.zeros((3, 4), int)},
        {"compute": Compute(precision="bfloat16")},
    ],
)
def test_a_checkpoint_of_other_data_or_arithmetic_is_not_resumed(tmp_path, change):
    seen = []

    def watched(steps):
        seen.append(steps)
        return steps

    for given in ({}, change, {}):
        run(checkpoint=tmp_path / "state.pt", progress=watched, **given)
    assert seen == [range(12)] * 3
    run(checkpoint=tmp_path / "state.pt", progress=watched)
    assert seen[3:] == [range(12, 12)]


@pytest.mark.parametrize(("seed", "rank"), [(1, 4), (0, 2)])
def test_another_base_or_adapter_is_another_training(seed, rank):
    def identity(seed, rank):
        base, pictures = tiny.backbone(seed), tiny.pixels(12)
        return checkpoints.identity(
            lora.adapt(clip.frozen_reference(base.model), rank, 8.0, seed=0),
            base.model,
            pixels=lambda rows: pictures[rows],
            groups=GROUPS,
            targets=torch.eye(4).expand(3, 4, 4),
            link=LINK,
            anchor_tokens=clip.tokenize(base, ["a cat"]),
            recipe=RECIPE,
        )

    assert identity(0, 4) == identity(0, 4) != identity(seed, rank)


def test_a_student_that_was_trained_is_refused():
    student, reference, _ = run()
    pictures = tiny.pixels(12)
    with pytest.raises(ValueError, match="its adapter has moved already; adapt a fresh copy"):
        train.train(
            student,
            reference,
            pixels=lambda rows: pictures[rows],
            groups=GROUPS,
            targets=torch.eye(4).expand(3, 4, 4),
            link=LINK,
            anchor_tokens=clip.tokenize(tiny.backbone(), ["a cat"]),
            recipe=RECIPE,
        )


def test_the_code_of_a_step_is_part_of_what_a_training_is():
    assert sorted(path.name for path in imported("import ask.train")) == sorted(checkpoints.CODE)


def test_only_the_factors_move():
    student, reference, _ = run()
    base = lora.base_weights(student)
    assert all(torch.equal(value, base[name]) for name, value in reference.state_dict().items())


def test_a_huge_feature_anchor_pins_the_student():
    free, reference, _ = run(replace(RECIPE, anchor="none"))
    pinned = run(replace(RECIPE, anchor="feature-l2", anchor_weight=1e4))[0]
    with torch.no_grad():
        truth = reference.encode_image(tiny.pixels(12))
        moved = [(student.encode_image(tiny.pixels(12)) - truth).norm() for student in (free, pinned)]
    assert moved[1] < 0.2 * moved[0]


def test_an_anchor_without_weight_is_no_anchor():
    none, zero = run(replace(RECIPE, anchor="none"))[0], run(replace(RECIPE, anchor_weight=0.0))[0]
    assert torch.equal(weights(none), weights(zero))


def test_every_group_is_seen_once_a_pass():
    passes = [[train._shuffled(7, step, 0) for step in range(start, start + 7)] for start in (0, 7)]
    assert all(sorted(groups) == list(range(7)) for groups in passes)
    assert passes[0] != passes[1]


def test_the_first_step_runs_at_the_full_rate_and_then_warms_up():
    recipe = replace(RECIPE, steps=100, warmup=10, schedule="constant")
    assert [train.rate(step, recipe) for step in (0, 1, 5, 10, 99)] == [1.0, 0.1, 0.5, 1.0, 1.0]
    assert train.rate(99, replace(recipe, schedule="cosine")) < 1e-3


def test_supcon_pulls_classes_together():
    labels = np.array([[0, 0, 1, 1]] * 3)
    recipe = replace(RECIPE, objective="supcon", anchor="none", steps=60)
    student = run(recipe, labels=labels)[0]
    with torch.no_grad():
        kernel = normalized_polynomial_kernel(student.encode_image(tiny.pixels(12)[:4]), LINK)
    assert kernel[0, 1] > kernel[0, 2]


def test_supcon_without_labels_is_refused():
    with pytest.raises(ValueError, match="SupCon needs class labels") as error:
        run(replace(RECIPE, objective="supcon"))
    assert "train on judgments" in str(error.value)


def test_groups_and_targets_must_belong_together():
    with pytest.raises(ValueError, match=r"\(3, 4\) groups need targets"):
        run(targets=torch.eye(4)[None])


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step():
    targets = torch.full((3, 4, 4), torch.nan)
    with pytest.raises(FloatingPointError, match="at step 0; lower"):
        run(targets=targets)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rank": "16"}, r"rank must be int, but is '16' \(str\)"),
        ({"learning_rate": "1e-4"}, "learning_rate must be float, but is '1e-4'"),
        ({"steps": True}, "steps must be int, but is True"),
    ],
)
def test_a_param_of_the_wrong_type_is_named(change, told):
    with pytest.raises(TypeError, match=told):
        replace(RECIPE, **change)


@pytest.mark.parametrize("change", [{"anchor": "l3"}, {"objective": "mse"}, {"schedule": "step"}])
def test_an_unknown_name_lists_the_known(change):
    with pytest.raises(ValueError, match=r"must be one of .*, but is"):
        replace(RECIPE, **change)


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="must be positive, but are 0"):
        replace(RECIPE, steps=0)
