"""Kernels: the student's similarity, the judge's similarity made valid, and the link between the two.

A kernel is a symmetric function of two feature vectors whose matrices are positive semidefinite (PSD). The
student's polynomial kernel is one by construction; a judge's scores need not be, so they are projected. In
reading order:

    dot_kernel, cosine_kernel                              similarities without parameters
    Link, polynomial_kernel, normalized_polynomial_kernel  eq. (1), and the form that ASK trains with
    project_psd, normalize_diagonal, target_kernel         eq. (3), eq. (4), and one after the other
    negative_mass                                          how far the judgments were from a kernel
    fit_link                                               gamma and c on frozen features

Everything is batched over leading axes and runs on any device. Kernel values are computed in float32 at
least, under autocast too (the cube of a bfloat16 number keeps two digits), eigenvalues in float64.

References: ASK, sections 2.1, 2.3, C.2 and E.6; Higham, "Computing a nearest symmetric positive semidefinite
matrix" (1988).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

# The largest |S - S^T| that is rounding: float32 scores in [0, 1] that were averaged stay far below it.
SYMMETRY_TOLERANCE = 1e-5


class NotSymmetricError(ValueError):
    """A matrix of similarities differs from its transpose; `eigh` would silently read one triangle only."""


def _wide(x: Tensor) -> Tensor:
    """The same numbers in float32 or wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def dot_kernel(
    x: Tensor,  # (..., n, d) features
    y: Tensor | None = None,  # (..., q, d) features, x if not given
) -> Tensor:  # (..., n, q)
    """Dot products, k(x, y) = xᵀy.

    Without parameters: the *fitted* dot product of ASK, Table 21, is `polynomial_kernel` with p = 1.
    """
    x = _wide(x)
    y = x if y is None else _wide(y)
    with torch.autocast(x.device.type, enabled=False):
        return x @ y.mT


def cosine_kernel(
    x: Tensor,  # (..., n, d) features
    y: Tensor | None = None,  # (..., q, d) features, x if not given
) -> Tensor:  # (..., n, q) in [-1, 1]
    """Cosine similarities, k(x, y) = xᵀy / (‖x‖‖y‖): what retrieval ranks by.

    Raises:
        ValueError: if a feature vector is zero or not a number.
    """
    gram = dot_kernel(x, y)
    return _divide_by_self(gram, *_self_products(gram, x, y))


@dataclass(frozen=True)
class Link:
    """The polynomial map of ASK, eq. (1): scale γ > 0, offset c >= 0, integer degree p >= 1.

    Fitted once per target, kernel form and backbone, then fixed and saved with the adapter. ``residual`` is
    the mean squared error that the fit left, dimensionless, nan for a link that was not fitted. In the
    *normalized* kernel only the ratio c / γ matters.

    Raises:
        ValueError: if γ, c or p is outside its range; the kernel would not be PSD.
    """

    gamma: float  # per squared feature unit
    c: float  # dimensionless
    p: int = 3
    residual: float = nan

    def __post_init__(self):
        if not 0 < self.gamma < torch.inf:
            raise ValueError(f"a link needs a finite gamma > 0, but gamma = {self.gamma}; use fit_link")
        if not 0 <= self.c < torch.inf:
            raise ValueError(f"a link needs a finite c >= 0, but c = {self.c}; use fit_link")
        if self.p != int(self.p) or self.p < 1:
            raise ValueError(f"a link needs an integer p >= 1, but p = {self.p}; the paper takes 3")


def polynomial_kernel(
    x: Tensor,  # (..., n, d) un-normalised features
    link: Link,
    *,
    y: Tensor | None = None,  # (..., q, d) un-normalised features, x if not given
) -> Tensor:  # (..., n, q)
    """Polynomial kernel, k(x, y) = (γ·xᵀy + c)^p.

    ASK, eq. (1). Its diagonal is *not* one; see `normalized_polynomial_kernel`.
    """
    return (link.gamma * dot_kernel(x, y) + link.c) ** link.p


def normalized_polynomial_kernel(
    x: Tensor,  # (..., n, d) un-normalised features
    link: Link,
    *,
    y: Tensor | None = None,  # (..., q, d) un-normalised features, x if not given
) -> Tensor:  # (..., n, q) in [-1, 1], k(x, x) = 1
    """Polynomial kernel with unit self-similarity, k̃(x, y) = k(x, y) / √(k(x, x)·k(y, y)).

    ASK, section 2.1, the student's kernel K^θ. The normalisation acts on kernel values; the features
    themselves are *not* normalised, and with c > 0 their norms matter.

    Raises:
        ValueError: if c = 0 and a feature vector is zero, or if one is not a number.
    """
    gram = dot_kernel(x, y)
    rows, columns = (link.gamma * squares + link.c for squares in _self_products(gram, x, y))
    # The power of a ratio, not a ratio of powers, whose terms would be the first to leave float32's range.
    return _divide_by_self(link.gamma * gram + link.c, rows, columns) ** link.p


def _self_products(gram: Tensor, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
    """‖x‖² (..., n) and ‖y‖² (..., q)."""
    if y is None:  # read off the matrix that they will divide: its diagonal then becomes one to the last bit
        squares = gram.diagonal(dim1=-2, dim2=-1)
        return squares, squares
    return _wide(x).square().sum(-1), _wide(y).square().sum(-1)


def _divide_by_self(
    matrix: Tensor,  # (..., n, q)
    rows: Tensor,  # (..., n) self-similarities
    columns: Tensor,  # (..., q) self-similarities
) -> Tensor:  # (..., n, q)
    """matrix_ij / √(rows_i·columns_j)."""
    smallest = torch.minimum(rows.min(), columns.min())
    if not smallest > 0:
        raise ValueError(
            f"every self-similarity must be positive, but the smallest is {smallest.item():.3g}; "
            "look for an empty row or a feature vector that is zero or nan"
        )
    return matrix / (rows[..., :, None] * columns[..., None, :]).sqrt()


def project_psd(
    similarity: Tensor,  # (..., b, b) symmetric, dimensionless
) -> Tensor:  # (..., b, b) symmetric, eigenvalues >= 0
    """Nearest PSD matrix in Frobenius norm, by eigenvalue clipping (Higham 1988).

    ASK, eq. (3): S = UΛUᵀ becomes A = U·max(Λ, 0)·Uᵀ. The diagonal is *not* restored to one but grows, and
    the off-diagonal entries shrink; see `normalize_diagonal`.

    Raises:
        NotSymmetricError: if ``similarity`` differs from its transpose by more than 1e-5.
        ValueError: if it is not square or not finite.
    """
    values, vectors = torch.linalg.eigh(_symmetric(similarity))
    projected = (vectors * values.clamp_min(0)[..., None, :]) @ vectors.mT
    return ((projected + projected.mT) / 2).to(_wide(similarity).dtype)


def normalize_diagonal(
    matrix: Tensor,  # (..., b, b) with a positive diagonal
) -> Tensor:  # (..., b, b) with unit diagonal
    """Unit self-similarity, D^(-1/2)·A·D^(-1/2) with D = diag(A).

    ASK, eq. (4). Keeps a PSD matrix PSD. The result is *not* the nearest unit-diagonal PSD matrix.

    Raises:
        ValueError: if a diagonal entry is not positive.
    """
    diagonal = _wide(matrix).diagonal(dim1=-2, dim2=-1)
    return _divide_by_self(matrix, diagonal, diagonal)


def target_kernel(
    similarity: Tensor,  # (..., b, b) symmetric with unit diagonal, in [0, 1]
) -> Tensor:  # (..., b, b) PSD with unit diagonal
    """What the student is trained towards: projection, then unit diagonal.

    ASK, eq. (3) and (4). Clipping only adds to the diagonal, so with a unit diagonal the division is always
    safe.

    Raises:
        NotSymmetricError, ValueError: as `project_psd` and `normalize_diagonal`.
    """
    return normalize_diagonal(project_psd(similarity))


def negative_mass(
    similarity: Tensor,  # (..., b, b) symmetric
) -> Tensor:  # (...) float64 in [0, 1), a fraction
    """Violation of PSD-ness, Σ|λ⁻| / Σ|λ|: the share of absolute eigenvalue mass on negative eigenvalues.

    ASK, section C.2 and Table 18 (there in percent, averaged over groups). 0 for a zero matrix.

    Raises:
        NotSymmetricError, ValueError: as `project_psd`.
    """
    values = torch.linalg.eigvalsh(_symmetric(similarity))
    return values.clamp_max(0).abs().sum(-1) / values.abs().sum(-1).clamp_min(torch.finfo(values.dtype).tiny)


def _symmetric(similarity: Tensor) -> Tensor:
    """The float64 mean of a matrix and its transpose, after checking that it only removes rounding."""
    if similarity.ndim < 2 or similarity.shape[-1] != similarity.shape[-2]:
        raise ValueError(f"similarity must be (..., b, b), but is {tuple(similarity.shape)}; pass groups")
    if missing := int((~similarity.isfinite()).sum()):
        raise ValueError(f"similarity must be finite, but {missing} entries are not; judge those pairs first")
    similarity = similarity.double()
    gap = (similarity - similarity.mT).abs().max().item()
    if gap > SYMMETRY_TOLERANCE:
        raise NotSymmetricError(
            f"similarity must be symmetric, but max |S - S^T| = {gap:.3g}; average the two orders first"
        )
    return (similarity + similarity.mT) / 2


def fit_link(
    features: Tensor,  # (g, b, d) un-normalised, from the frozen backbone
    targets: Tensor,  # (g, b, b) target kernels of the same images
    *,
    kernel: Callable[[Tensor, Link], Tensor] = normalized_polynomial_kernel,
    p: int = 3,
    # ASK, section E.6: 600 Adam steps at 5e-2 (on the first 20 training groups).
    steps: int = 600,
    learning_rate: float = 5e-2,
) -> Link:
    """Least-squares γ and c of a kernel on frozen features, by Adam in float64.

    ASK, sections C.2 and E.6. Minimises the mean over all g·b·b entries of (k(x_i, x_j) - K_ij)², diagonal
    included, and keeps the last iterate and its mean as the residual. γ = exp(u) and c = v², so that γ > 0
    and c >= 0 always; c = exp(v) would only creep towards zero, where it belongs if all cosines are high. The
    start is γ = 1 / (2·mean‖x‖²) and c = 1/2: k(x, x) is then about one, whatever the scale of the features.
    Nothing is drawn at random. In the *normalized* kernel the data determine only c / γ.

    Args:
        kernel: `normalized_polynomial_kernel` or `polynomial_kernel` (with p = 1 the dot product), or any
            other function of dot products alone.

    Raises:
        ValueError: if the shapes do not belong together, an entry is not finite, or the fit diverged.
    """
    if features.ndim != 3 or targets.shape != (*features.shape[:2], features.shape[1]):
        raise ValueError(
            f"features must be (g, b, d) and targets (g, b, b), but are {tuple(features.shape)} and "
            f"{tuple(targets.shape)}; group both alike"
        )
    if not (features.isfinite().all() and targets.isfinite().all()):
        raise ValueError("features and targets must be finite, but an entry is not; judge all pairs first")
    # A kernel sees features through dot products only, so min(b, d) coordinates with the same ones will do.
    x, k = torch.linalg.qr(features.detach().double().mT).R.mT, targets.detach().double()
    u = (0.5 / x.square().sum(-1).mean()).log().requires_grad_()
    v = x.new_tensor(0.5).sqrt().requires_grad_()

    def residual() -> Tensor:
        return (kernel(x, Link(u.exp(), v.square(), p)) - k).square().mean()

    optimizer = torch.optim.Adam([u, v], lr=learning_rate)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            residual().backward()
            optimizer.step()
    return Link(u.exp().item(), v.square().item(), p, residual().item())
