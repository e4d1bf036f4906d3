"""The losses against double loops over plain numbers, and what each must be zero or blind to."""

import math

import numpy as np
import pytest
import torch

from ask.losses import (
    feature_l1,
    feature_l2,
    kernel_mse,
    kl_anchor,
    masked_mse,
    promptsrc,
    ranking_hinge,
    spectral_norm_loss,
    supcon,
    text_l1,
    top_eigenvalues_loss,
    total,
)

DIRECTIONS = ["reference-student", "student-reference"]


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def kernel(*shape: int, seed: int = 0) -> torch.Tensor:
    matrix = numbers(*shape, shape[-1], seed=seed)
    return (matrix + matrix.mT) / 2


STUDENT, TARGET = kernel(5), kernel(5, seed=1)
MASK = torch.zeros(5, 5, dtype=torch.bool)
MASK[[0, 3, 2], [1, 4, 0]] = True
LABELS = torch.tensor([0, 1, 0, 2, 0, 1])
DIRECTION_L1 = {"text": numbers(7, 4, seed=4), "reference_text": numbers(7, 4, seed=5)}
LOGITS = {"logits": numbers(3, 7, seed=6), "reference_logits": numbers(3, 7, seed=7)}
OF_TWO = {
    "kernel_mse": kernel_mse,
    "masked_mse": lambda s, t: masked_mse(s, t, mask=MASK),
    "spectral_norm_loss": spectral_norm_loss,
    "spectral_norm_loss squared": lambda s, t: spectral_norm_loss(s, t, squared=True),
    "top_eigenvalues_loss": top_eigenvalues_loss,
    "ranking_hinge": ranking_hinge,
    "kl_anchor": kl_anchor,
    "kl_anchor reversed": lambda s, t: kl_anchor(s, t, direction="student-reference"),
    "feature_l1": feature_l1,
    "feature_l2": feature_l2,
    "text_l1": text_l1,
}
ZERO_AT_EQUALITY = sorted(set(OF_TWO) - {"ranking_hinge"})


@pytest.mark.parametrize("name", OF_TWO)
def test_a_loss_is_a_scalar_that_passes_gradcheck_and_leaves_its_inputs_alone(name):
    loss = OF_TWO[name]
    student, target = STUDENT.clone().requires_grad_(), TARGET.clone().requires_grad_()
    assert loss(student, target).shape == ()
    free = (target,) if name != "ranking_hinge" else (TARGET,)  # the order of targets is not differentiable
    assert torch.autograd.gradcheck(loss, (student, *free))
    assert torch.equal(student, STUDENT) and torch.equal(target, TARGET)


@pytest.mark.parametrize("name", ZERO_AT_EQUALITY)
def test_a_loss_is_zero_with_zero_gradient_where_the_student_equals_its_target(name):
    student = STUDENT.clone().requires_grad_()
    loss = OF_TWO[name](student, STUDENT)
    loss.backward()
    assert abs(loss.item()) < 1e-15
    assert student.grad.abs().max() < 1e-15


@pytest.mark.parametrize("name", OF_TWO)
def test_a_loss_refuses_to_broadcast(name):
    with pytest.raises(
        ValueError, match=r"one shape, but are \(5, 5\) and \(1, 5\); compare the same images"
    ):
        OF_TWO[name](STUDENT, TARGET[:1])


@pytest.mark.parametrize("name", OF_TWO)
def test_a_loss_is_computed_in_float32_from_half_precision_and_under_autocast(name):
    loss, student, target = OF_TWO[name], STUDENT.bfloat16(), TARGET.bfloat16()
    assert loss(student, target).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss(STUDENT.float(), TARGET.float()), loss(STUDENT, TARGET).float())
    torch.testing.assert_close(loss(student, target), loss(student.double(), target.double()).float())


def test_kernel_mse_agrees_with_a_double_loop_that_counts_the_diagonal():
    squares = [(STUDENT[i, j] - TARGET[i, j]).item() ** 2 for i in range(5) for j in range(5)]
    assert kernel_mse(STUDENT, TARGET).item() == pytest.approx(sum(squares) / 25)


@pytest.mark.parametrize("name", ["kernel_mse", "spectral_norm_loss", "top_eigenvalues_loss"])
def test_the_loss_of_several_groups_is_the_mean_of_their_losses(name):
    student, target = kernel(3, 5), kernel(3, 5, seed=1)
    each = [OF_TWO[name](s, t) for s, t in zip(student, target, strict=True)]
    torch.testing.assert_close(OF_TWO[name](student, target), torch.stack(each).mean())


def test_masked_mse_reads_observed_pairs_only():
    target = torch.where(MASK, TARGET, torch.nan)
    student = STUDENT.clone().requires_grad_()
    loss = masked_mse(student, target, mask=MASK)
    squares = [(STUDENT[i, j] - TARGET[i, j]).item() ** 2 for i, j in ((0, 1), (3, 4), (2, 0))]
    assert loss.item() == pytest.approx(sum(squares) / 3)
    loss.backward()
    assert torch.equal(student.grad != 0, MASK)
    full = torch.ones_like(MASK)
    torch.testing.assert_close(masked_mse(STUDENT, TARGET, mask=full), kernel_mse(STUDENT, TARGET))


def test_a_pair_marked_in_both_triangles_leaves_the_masked_mean_the_same():
    torch.testing.assert_close(
        masked_mse(STUDENT, TARGET, mask=MASK), masked_mse(STUDENT, TARGET, mask=MASK | MASK.T)
    )


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            torch.zeros(5, 5, dtype=torch.bool),
            r"torch.bool \(5, 5\) with 0 of them; draw pairs for every group",
        ),
        (MASK[:1], r"pairs of a \(5, 5\) kernel, but is torch.bool \(1, 5\)"),
        (MASK.long(), r"must be bool .* but is torch.int64 \(5, 5\) with 3"),
    ],
)
def test_a_mask_without_observed_pairs_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        masked_mse(STUDENT, TARGET, mask=mask)


def test_the_spectral_loss_is_the_matrix_norm_over_b():
    expected = np.linalg.norm((STUDENT - TARGET).numpy(), ord=2) / 5
    assert spectral_norm_loss(STUDENT, TARGET).item() == pytest.approx(expected)
    assert spectral_norm_loss(STUDENT, TARGET, squared=True).item() == pytest.approx(expected**2)


def test_the_top_eigenvalues_are_the_largest_in_absolute_value():
    difference = torch.diag(torch.tensor([1.0, -4, 3, 0.5, -2], dtype=torch.float64))
    loss = top_eigenvalues_loss(difference, torch.zeros_like(difference), k=2)
    assert loss.item() == pytest.approx(math.sqrt(16 + 9) / 5)


def test_all_eigenvalues_squared_are_the_frobenius_loss():
    every = top_eigenvalues_loss(STUDENT, TARGET, k=5, squared=True)
    torch.testing.assert_close(every, kernel_mse(STUDENT, TARGET))


@pytest.mark.parametrize("k", [0, 6])
def test_more_eigenvalues_than_images_are_refused(k):
    with pytest.raises(
        ValueError, match=rf"k must be in 1..5, a group's eigenvalues, but is {k}; kernel_mse"
    ):
        top_eigenvalues_loss(STUDENT, TARGET, k=k)


def test_the_ranking_hinge_agrees_with_a_loop_over_ordered_pairs_of_pairs():
    student, target = 0.1 * STUDENT, (TARGET * 4).round() / 4  # near the margin, and with ties
    pairs, terms = [(i, j) for i in range(5) for j in range(5) if i < j], []
    for u in pairs:
        for v in pairs:
            gap = (target[u] - target[v]).item()
            if abs(gap) > 1e-3:
                terms.append(max(0, 0.05 - math.copysign(1, gap) * (student[u] - student[v]).item()))
    assert 0 < len(terms) < 90
    assert ranking_hinge(student, target).item() == pytest.approx(sum(terms) / len(terms))


def test_the_ranking_hinge_ignores_order_kept_by_the_margin_and_gaps_too_small_to_mean_anything():
    assert ranking_hinge(TARGET * 100, TARGET).item() == 0
    student = STUDENT.clone().requires_grad_()
    loss = ranking_hinge(student, 0.5 + 1e-4 * TARGET)
    loss.backward()
    assert loss.item() == 0 and student.grad.abs().max() == 0


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_divergence_agrees_with_a_hand_sum_in_its_direction(direction):
    student, reference = LOGITS["logits"], LOGITS["reference_logits"]
    expected = 0.0
    for one, zero in zip(student.tolist(), reference.tolist(), strict=True):
        p = [math.exp(z) / sum(math.exp(y) for y in one) for z in one]
        p0 = [math.exp(z) / sum(math.exp(y) for y in zero) for z in zero]
        first, second = (p0, p) if direction == "reference-student" else (p, p0)
        expected += sum(f * (math.log(f) - math.log(s)) for f, s in zip(first, second, strict=True)) / 3
    assert kl_anchor(student, reference, direction=direction).item() == pytest.approx(expected)


def test_the_two_directions_differ_and_the_papers_is_the_default():
    student, reference = LOGITS.values()
    forward, backward = (kl_anchor(student, reference, direction=d).item() for d in DIRECTIONS)
    assert forward == kl_anchor(student, reference).item() != pytest.approx(backward)
    assert backward == pytest.approx(kl_anchor(reference, student).item())


def test_the_divergence_divides_by_the_batch_and_not_by_the_texts():
    student, reference = torch.zeros(1, 1000).double(), torch.full((1, 1000), -1000.0).double()
    reference[0, 0] = 0  # all mass on one of 1,000 texts against none preferred: ln 1000
    for b in (1, 8):
        assert kl_anchor(student.expand(b, -1), reference.expand(b, -1)).item() == pytest.approx(
            math.log(1000)
        )


def test_the_divergence_of_confident_predictions_stays_finite():
    loss = kl_anchor(torch.tensor([[100.0, -100.0]]), torch.tensor([[-100.0, 100.0]]))
    assert loss.item() == pytest.approx(200)


def test_an_unknown_direction_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"'reference-student' or 'student-reference', but is 'both'; write one"
    ):
        kl_anchor(*LOGITS.values(), direction="both")


def test_feature_l2_sums_over_d_and_feature_l1_averages_over_it():
    student, reference = numbers(3, 4), numbers(3, 4, seed=1)
    apart = [[(student[i, j] - reference[i, j]).item() for j in range(4)] for i in range(3)]
    assert feature_l2(student, reference).item() == pytest.approx(
        sum(a * a for row in apart for a in row) / 3
    )
    assert feature_l1(student, reference).item() == pytest.approx(
        sum(abs(a) for row in apart for a in row) / 12
    )


def test_text_l1_compares_directions():
    student, reference = DIRECTION_L1.values()
    apart = [
        abs(s / math.hypot(*one) - r / math.hypot(*zero))
        for one, zero in zip(student.tolist(), reference.tolist(), strict=True)
        for s, r in zip(one, zero, strict=True)
    ]
    assert text_l1(student, reference).item() == pytest.approx(sum(apart) / 28)
    torch.testing.assert_close(text_l1(3 * student, reference), text_l1(student, reference))


def test_promptsrc_is_its_three_parts_with_the_published_weights():
    image, reference = numbers(3, 4), numbers(3, 4, seed=1)
    loss = promptsrc(image, reference, **DIRECTION_L1, **LOGITS)
    texts = text_l1(*DIRECTION_L1.values())
    expected = kl_anchor(*LOGITS.values()) + 10 * text_l1(image, reference) + 25 * texts
    torch.testing.assert_close(loss, expected)
    same = {"text": DIRECTION_L1["text"], "reference_text": DIRECTION_L1["text"]}
    logits = {"logits": LOGITS["logits"], "reference_logits": LOGITS["logits"]}
    assert abs(promptsrc(image, image, **same, **logits).item()) < 1e-15


def supcon_by_loops(features, labels, temperature):
    x = [[z / math.hypot(*row) for z in row] for row in features.tolist()]
    each = []
    for i, y in enumerate(labels):
        others = [a for a in range(len(x)) if a != i]
        weight = {
            a: math.exp(sum(u * v for u, v in zip(x[i], x[a], strict=True)) / temperature) for a in others
        }
        positives = [p for p in others if labels[p] == y]
        if positives:
            each.append(-sum(math.log(weight[p] / sum(weight.values())) for p in positives) / len(positives))
    return sum(each) / len(each)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_supcon_agrees_with_loops_and_skips_images_without_a_positive(temperature):
    features = numbers(6, 4)
    expected = supcon_by_loops(features, LABELS.tolist(), temperature)
    assert supcon(features, LABELS, temperature=temperature).item() == pytest.approx(expected)


def test_supcon_passes_gradcheck_is_blind_to_norms_and_keeps_float32_under_autocast():
    features = numbers(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: supcon(x, LABELS), (features,))
    loss = supcon(features, LABELS)
    torch.testing.assert_close(supcon(features * torch.arange(1, 7)[:, None], LABELS), loss)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(supcon(features.float(), LABELS), loss.float())


def test_supcon_of_two_images_of_one_class_alone_is_zero():
    assert supcon(numbers(2, 4), torch.tensor([1, 1])).item() == pytest.approx(0, abs=1e-12)


def test_supcon_without_two_images_of_a_class_is_refused():
    with pytest.raises(ValueError, match=r"two images of a class, but all 6 differ; draw by class"):
        supcon(numbers(6, 4), torch.arange(6))


def test_the_total_adds_the_weighted_anchor():
    assert total(torch.tensor(0.5), torch.tensor(2.0), weight=0.2).item() == pytest.approx(0.9)
    with pytest.raises(
        ValueError, match=r"anchor weight must be >= 0, but is -1; the paper's default is 0.2"
    ):
        total(torch.tensor(0.5), torch.tensor(2.0), weight=-1)
