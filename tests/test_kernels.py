"""The kernels against double loops, scipy, and what the paper claims of them."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ask.kernels import (
    Link,
    NotSymmetricError,
    cosine_kernel,
    dot_kernel,
    fit_link,
    negative_mass,
    normalize_diagonal,
    normalized_polynomial_kernel,
    polynomial_kernel,
    project_psd,
    target_kernel,
)

LINK = Link(gamma=0.3, c=0.7)
FORMS = [
    (lambda x, y=None: dot_kernel(x, y), lambda u, v: sum(u * v)),
    (lambda x, y=None: cosine_kernel(x, y), lambda u, v: sum(u * v) / math.hypot(*u) / math.hypot(*v)),
    (lambda x, y=None: polynomial_kernel(x, LINK, y=y), lambda u, v: (0.3 * sum(u * v) + 0.7) ** 3),
    (
        lambda x, y=None: normalized_polynomial_kernel(x, LINK, y=y),
        lambda u, v: (
            (0.3 * sum(u * v) + 0.7) ** 3
            / math.sqrt((0.3 * sum(u * u) + 0.7) ** 3 * (0.3 * sum(v * v) + 0.7) ** 3)
        ),
    ),
]
NAMES = ["dot", "cosine", "polynomial", "normalized polynomial"]
many = settings(max_examples=30, deadline=None, derandomize=True)


def features(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.4


def judged(*shape: int, seed: int = 0) -> torch.Tensor:
    """Symmetric scores in [0, 1] with unit diagonal, as indefinite as a noisy judge's."""
    scores = torch.rand(*shape, shape[-1], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    scores = (scores + scores.mT) / 2
    scores.diagonal(dim1=-2, dim2=-1).fill_(1)
    return scores


def double_loop(x, y, similarity):
    return np.array([[similarity(u, v) for v in y.numpy()] for u in x.numpy()])


@pytest.mark.parametrize(("kernel", "similarity"), FORMS, ids=NAMES)
def test_a_kernel_agrees_with_a_double_loop_over_pairs(kernel, similarity):
    x, y = features(5, 4), features(3, 4, seed=1)
    np.testing.assert_allclose(kernel(x), double_loop(x, x, similarity), rtol=1e-12)
    np.testing.assert_allclose(kernel(x, y), double_loop(x, y, similarity), rtol=1e-12)


@pytest.mark.parametrize(("kernel", "similarity"), FORMS, ids=NAMES)
def test_a_batch_of_groups_is_the_stack_of_its_groups(kernel, similarity):
    x = features(2, 3, 5, 4)
    stacked = torch.stack([torch.stack([kernel(group) for group in row]) for row in x])
    torch.testing.assert_close(kernel(x), stacked)


@pytest.mark.parametrize(("kernel", "similarity"), FORMS, ids=NAMES)
def test_a_kernel_passes_gradcheck_and_leaves_its_input_alone(kernel, similarity):
    x = features(4, 3).requires_grad_()
    before = x.detach().clone()
    assert torch.autograd.gradcheck(kernel, (x,))
    assert torch.autograd.gradcheck(kernel, (x, features(2, 3, seed=1).requires_grad_()))
    assert torch.equal(x, before)


@pytest.mark.parametrize(("kernel", "similarity"), FORMS, ids=NAMES)
def test_a_kernel_is_not_computed_in_half_precision(kernel, similarity):
    x = features(5, 64)
    for dtype in (torch.bfloat16, torch.float16):
        rounded = x.to(dtype)
        torch.testing.assert_close(kernel(rounded), kernel(rounded.float()), rtol=0, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(kernel(x.float()).double(), kernel(x), rtol=1e-4, atol=1e-5)


@many
@given(st.integers(0, 10_000), st.floats(0.01, 5), st.floats(0, 5), st.integers(1, 5), st.booleans())
def test_the_normalized_kernel_is_psd_with_a_diagonal_of_exactly_one(seed, gamma, c, p, single):
    x = features(8, 3, seed=seed)
    kernel = normalized_polynomial_kernel(x.float() if single else x, Link(gamma, c, p))
    assert (kernel.diagonal() == 1).all()
    assert kernel.abs().max() <= 1 + 1e-6
    assert torch.linalg.eigvalsh(kernel.double()).min() > -1e-5


def test_the_normalized_kernel_depends_on_c_over_gamma_only():
    x = features(6, 4)
    once, scaled = (normalized_polynomial_kernel(x, Link(s * 0.3, s * 0.7)) for s in (1, 50))
    torch.testing.assert_close(once, scaled)


def test_without_an_offset_the_normalized_cubic_is_the_cubed_cosine():
    x = features(6, 4)
    torch.testing.assert_close(normalized_polynomial_kernel(x, Link(0.3, 0.0)), cosine_kernel(x) ** 3)


def test_with_an_offset_the_norms_of_features_matter():
    x = features(6, 4)
    by_norm, by_direction = (normalized_polynomial_kernel(z, LINK) for z in (x, x / x.norm(dim=-1)[:, None]))
    assert (by_norm - by_direction).abs().max() > 0.05


def test_large_float32_features_do_not_overflow_the_normalized_kernel():
    x = features(4, 8).float() * 1e8
    kernel = normalized_polynomial_kernel(x, Link(1.0, 1.0))
    torch.testing.assert_close(kernel, cosine_kernel(x) ** 3)


def test_a_zero_feature_vector_is_refused_where_it_has_no_direction():
    x = torch.stack([torch.ones(3), torch.zeros(3)])
    with pytest.raises(ValueError, match=r"must be positive, but the smallest is 0; look for an empty row"):
        cosine_kernel(x)
    with pytest.raises(ValueError, match=r"the smallest is nan"):
        cosine_kernel(x * torch.nan)
    assert normalized_polynomial_kernel(x, LINK).isfinite().all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((0.0, 1.0), r"a finite gamma > 0, but gamma = 0.0; use fit_link"),
        ((math.nan, 1.0), r"gamma = nan"),
        ((1.0, -0.1), r"a finite c >= 0, but c = -0.1; use fit_link"),
        ((1.0, math.inf), r"c = inf"),
        ((1.0, 1.0, 0), r"an integer p >= 1, but p = 0; the paper takes 3"),
        ((1.0, 1.0, 2.5), r"p = 2.5"),
    ],
)
def test_a_link_that_makes_no_kernel_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Link(*parameters)


def test_projection_agrees_with_scipy_in_float64():
    for similarity in judged(5, 12):
        values, vectors = scipy.linalg.eigh(similarity.numpy())
        expected = sum(max(v, 0) * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True))
        np.testing.assert_allclose(project_psd(similarity), expected, atol=1e-13)


@many
@given(st.integers(0, 10_000), st.integers(2, 9))
def test_projection_is_the_nearest_psd_matrix_by_the_variational_inequality(seed, b):
    # A is the projection of S on the cone of PSD matrices if and only if <S - A, B - A> <= 0 for all B in it.
    similarity = judged(b, seed=seed)
    projected = project_psd(similarity)
    assert torch.linalg.eigvalsh(projected).min() > -1e-12
    assert ((similarity - projected) * projected).sum().abs() < 1e-10
    for other in features(20, b, 2, seed=seed + 1):
        assert ((similarity - projected) * (other @ other.mT - projected)).sum() < 1e-10


@many
@given(st.integers(0, 10_000), st.integers(2, 9))
def test_projection_is_idempotent_and_the_identity_on_psd_input(seed, b):
    projected = project_psd(judged(b, seed=seed))
    torch.testing.assert_close(project_psd(projected), projected, atol=1e-12, rtol=0)
    gram = dot_kernel(features(b, b, seed=seed))
    torch.testing.assert_close(project_psd(gram), gram, atol=1e-10, rtol=0)


@many
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_target_does_not_depend_on_the_order_of_the_images(seed, random):
    similarity, order = judged(7, seed=seed), random.sample(range(7), 7)
    permuted = target_kernel(similarity[order][:, order])
    torch.testing.assert_close(permuted, target_kernel(similarity)[order][:, order], atol=1e-12, rtol=0)


@many
@given(st.integers(0, 10_000))
def test_clipping_grows_a_unit_diagonal_and_the_target_restores_it(seed):
    similarity = judged(3, 16, seed=seed)
    projected, target = project_psd(similarity), target_kernel(similarity)
    assert projected.diagonal(dim1=-2, dim2=-1).min() >= 1 - 1e-12
    assert (target.diagonal(dim1=-2, dim2=-1) == 1).all()
    assert torch.equal(target, target.mT)
    assert torch.linalg.eigvalsh(target).min() > -1e-12


def test_normalizing_the_diagonal_agrees_with_a_double_loop():
    matrix = project_psd(judged(6))
    a = matrix.numpy()
    expected = [[a[i, j] / math.sqrt(a[i, i]) / math.sqrt(a[j, j]) for j in range(6)] for i in range(6)]
    np.testing.assert_allclose(normalize_diagonal(matrix), expected, rtol=1e-13)


def test_normalizing_an_empty_row_is_refused():
    with pytest.raises(ValueError, match=r"self-similarity must be positive, but the smallest is 0"):
        normalize_diagonal(torch.diag(torch.tensor([1.0, 0.0])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eigenwork_is_done_in_float64_and_cast_back_to_float32(dtype):
    similarity = judged(3, 32).to(dtype)
    exact = project_psd(similarity.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        projected = project_psd(similarity)
    assert projected.dtype == torch.float32
    assert torch.equal(projected, exact.float())


def test_projection_leaves_its_input_alone():
    similarity = judged(5)
    before = similarity.clone()
    target_kernel(similarity)
    negative_mass(similarity)
    assert torch.equal(similarity, before)


def test_negative_mass_of_a_chain_of_three_is_known():
    # a ~ b and b ~ c but not a ~ c has the eigenvalues 1, 1 + sqrt 2, 1 - sqrt 2.
    chain = torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    masses = negative_mass(torch.stack([chain, torch.eye(3), torch.zeros(3, 3)]))
    torch.testing.assert_close(masses[0].item(), (math.sqrt(2) - 1) / (1 + 2 * math.sqrt(2)))
    assert masses[1:].tolist() == [0, 0]


@pytest.mark.parametrize("function", [project_psd, target_kernel, negative_mass])
def test_a_matrix_that_eigh_would_misread_is_refused(function):
    with pytest.raises(NotSymmetricError, match=r"max \|S - S\^T\| = 0.8; average the two orders first"):
        function(torch.tensor([[1, 0.9], [0.1, 1]]))
    with pytest.raises(ValueError, match=r"must be finite, but 2 entries are not; judge those pairs first"):
        function(torch.tensor([[1, math.nan], [math.nan, 1]]))
    with pytest.raises(ValueError, match=r"must be \(..., b, b\), but is \(2, 3\); pass groups"):
        function(torch.ones(2, 3))


def test_an_asymmetry_of_rounding_is_averaged_out():
    similarity = judged(6)
    noisy = similarity + 4e-6 * torch.triu(torch.ones(6, 6), 1)
    assert torch.equal(project_psd(noisy), project_psd(noisy.mT))


@pytest.mark.parametrize(
    ("kernel", "p"),
    [(normalized_polynomial_kernel, 3), (polynomial_kernel, 3), (polynomial_kernel, 1)],
    ids=["normalized cubic", "cubic", "dot product"],
)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_fit_recovers_the_link_that_made_the_target(kernel, p, scale):
    x = features(4, 8, 16)
    truth = Link(gamma=0.02, c=0.3, p=p)
    link = fit_link(x * scale, kernel(x, truth), kernel=kernel, p=p)
    assert link.p == p
    assert link.residual < 1e-9
    assert link.c / link.gamma * scale**-2 == pytest.approx(15, rel=1e-3)
    if kernel is polynomial_kernel:
        assert (link.gamma * scale**2, link.c) == pytest.approx((0.02, 0.3), rel=1e-3)


def test_the_fit_of_a_dot_product_agrees_with_linear_least_squares():
    x, targets = features(4, 8, 16), target_kernel(judged(4, 8)) + 0.5
    link = fit_link(x, targets, kernel=polynomial_kernel, p=1)
    columns = torch.stack([dot_kernel(x).flatten(), torch.ones(4 * 8 * 8, dtype=torch.float64)], dim=1)
    gamma, c = torch.linalg.lstsq(columns, targets.flatten()[:, None]).solution.flatten().tolist()
    assert (link.gamma, link.c) == pytest.approx((gamma, c), rel=1e-3)


def test_the_fit_of_the_normalized_cubic_agrees_with_a_grid():
    x, targets = features(4, 8, 16), target_kernel(judged(4, 8))

    def loss(ratio):
        return (normalized_polynomial_kernel(x, Link(1.0, ratio)) - targets).square().mean().item()

    best = min(np.geomspace(1e-2, 1e3, 1001), key=loss)
    link = fit_link(x, targets)
    assert link.c / link.gamma == pytest.approx(best, rel=0.02)
    assert 0 <= loss(best) - link.residual < 1e-5


def test_an_offset_that_wants_to_be_negative_ends_at_zero():
    x = features(4, 8, 16)
    link = fit_link(x, 0.05 * dot_kernel(x) - 0.5, kernel=polynomial_kernel, p=1)
    assert 0 <= link.c < 1e-6


def test_the_residual_is_the_mean_square_over_all_entries():
    x, targets = features(2, 5, 3), target_kernel(judged(2, 5))
    link = fit_link(x, targets, steps=20)
    kernel = normalized_polynomial_kernel(x, link)
    squares = [
        (kernel[g, i, j] - targets[g, i, j]) ** 2 for g in range(2) for i in range(5) for j in range(5)
    ]
    assert link.residual == pytest.approx(float(sum(squares)) / 50, rel=1e-9)


def test_a_fit_is_repeatable_and_works_where_gradients_are_off():
    x, targets = features(2, 5, 3).float(), target_kernel(judged(2, 5)).float()
    state = torch.get_rng_state()
    with torch.no_grad():
        first = fit_link(x, targets, steps=50)
    assert first == fit_link(x.requires_grad_(), targets, steps=50)
    assert x.grad is None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_fit_refuses_what_does_not_belong_together():
    with pytest.raises(ValueError, match=r"but are \(2, 5, 3\) and \(2, 4, 4\); group both alike"):
        fit_link(features(2, 5, 3), judged(2, 4))
    with pytest.raises(ValueError, match=r"must be finite, but an entry is not; judge all pairs first"):
        fit_link(features(2, 5, 3), judged(2, 5) * torch.nan)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_what_the_cpu_gives():
    x, similarity = features(3, 16, 32).float(), judged(3, 16).float()
    on_gpu = normalized_polynomial_kernel(x.cuda(), LINK), target_kernel(similarity.cuda())
    on_cpu = normalized_polynomial_kernel(x, LINK), target_kernel(similarity)
    torch.testing.assert_close(tuple(z.cpu() for z in on_gpu), on_cpu)
    link = fit_link(x.cuda(), target_kernel(similarity).cuda())
    assert link.gamma == pytest.approx(fit_link(x, target_kernel(similarity)).gamma, rel=1e-6)
