"""Losses: a pull of the student's kernel to the target, and an anchor that holds the rest of CLIP in place.

    kernel_mse, masked_mse                             eq. (5), and the same on observed pairs only
    spectral_norm_loss, top_eigenvalues_loss           its spectral relatives (Table 22)
    ranking_hinge                                      the order of the pairs only (Table 21)
    supcon                                             class labels in place of a kernel (section C.3)
    kl_anchor                                          eq. (7), in both directions (Table 19)
    feature_l1, feature_l2, text_l1, promptsrc         the other anchors of Table 19
    total                                              eq. (8)

Every loss returns a scalar, is computed in float32 at least, under autocast too, and is differentiable in
both of its arguments: the caller detaches the reference. What each one averages over is part of its
definition and stated there, since an anchor's weight means nothing without it.

References: ASK, sections 2.4, 2.5, C.3, E.4, E.6, E.7; Khosla et al., "Supervised contrastive learning"
(2020); Khattak et al., "Self-regulating prompts" (2023).
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def _wide_pair(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float32 or wider, after checking that no broadcast hides a mistake."""
    if first.shape != second.shape:
        raise ValueError(
            f"both arguments must have one shape, but are {tuple(first.shape)} and {tuple(second.shape)}; "
            "compare the same images, texts and groups"
        )
    wide = torch.promote_types(torch.promote_types(first.dtype, second.dtype), torch.float32)
    return first.to(wide), second.to(wide)


def kernel_mse(
    student: Tensor,  # (..., b, b) kernel of the adapted features
    target: Tensor,  # (..., b, b) target kernel
) -> Tensor:  # () dimensionless
    """Mean squared difference of two kernels, ‖K^θ - K‖²_F / b².

    ASK, eq. (5). All b² entries count, the diagonal too, and leading axes are averaged.

    Raises:
        ValueError: if the shapes differ.
    """
    student, target = _wide_pair(student, target)
    return (student - target).square().mean()


def masked_mse(
    student: Tensor,  # (..., b, b) kernel of the adapted features
    target: Tensor,  # (..., b, b) scaled scores, anything (nan too) where the mask is False
    *,
    mask: Tensor,  # (..., b, b) bool, True where a pair was judged
) -> Tensor:  # () dimensionless
    """Mean squared difference over observed entries only.

    ASK, section D.10 (sparse supervision). Averages over the True entries of all leading axes together. The
    diagonal counts only where the mask says so; a pair marked in both triangles counts twice, which leaves
    the mean the same.

    Raises:
        ValueError: if the shapes differ, the mask is not bool, or no pair is observed.
    """
    if mask.dtype != torch.bool or mask.shape != student.shape or not mask.any():
        raise ValueError(
            f"mask must be bool and mark observed pairs of a {tuple(student.shape)} kernel, but is "
            f"{mask.dtype} {tuple(mask.shape)} with {int(mask.sum())} of them; draw pairs for every group"
        )
    student, target = _wide_pair(student, target)
    return kernel_mse(student[mask], target[mask])


def spectral_norm_loss(
    student: Tensor,  # (..., b, b) kernel of the adapted features
    target: Tensor,  # (..., b, b) target kernel
    *,
    squared: bool = False,
) -> Tensor:  # () dimensionless
    """Spectral norm of the difference, ‖K^θ - K‖₂ / b.

    ASK, Table 22. It is `top_eigenvalues_loss` with k = 1; read there what the paper leaves open.

    Raises:
        ValueError: if the shapes differ.
    """
    return top_eigenvalues_loss(student, target, k=1, squared=squared)


def top_eigenvalues_loss(
    student: Tensor,  # (..., b, b) kernel of the adapted features
    target: Tensor,  # (..., b, b) target kernel
    *,
    k: int = 4,
    squared: bool = False,
) -> Tensor:  # () dimensionless
    """Truncated Frobenius norm of the difference, √(Σ_{i<=k} λ_i²) / b with |λ_1| >= |λ_2| >= ...

    ASK, Table 22 (k = 4). Averages over leading axes. The paper states neither power nor scale. This family
    holds the spectral norm (k = 1) and, if ``squared``, eq. (5) itself (k = b). That the first power is the
    default is inferred: its pull is several times that of eq. (5), which fits the recognition lost in Table
    22, while the square of one eigenvalue pulls less.

    Raises:
        ValueError: if the shapes differ or k is not in 1..b.
    """
    student, target = _wide_pair(student, target)
    b = student.shape[-1]
    if not 1 <= k <= b:
        raise ValueError(f"k must be in 1..{b}, a group's eigenvalues, but is {k}; kernel_mse takes all")
    # Singular values are the |eigenvalues| of a symmetric matrix, and the solver reads both triangles.
    largest = torch.linalg.svdvals((student - target).double())[..., :k] / b
    loss = largest.square().sum(-1) if squared else torch.linalg.vector_norm(largest, dim=-1)
    return loss.mean().to(student.dtype)


def ranking_hinge(
    student: Tensor,  # (..., b, b) kernel of the adapted features
    target: Tensor,  # (..., b, b) target kernel
    *,
    # ASK, section E.6, for both numbers.
    margin: float = 0.05,
    gap: float = 1e-3,
) -> Tensor:  # () dimensionless
    """Pairwise ranking hinge, mean of max(0, margin - (s_u - s_v)) over image pairs with t_u - t_v > gap.

    ASK, section E.6, "ranking". u and v run over the b(b-1)/2 unordered pairs i < j of one group; swapping u
    and v gives the same term, so each comparison counts once. Averages over all comparisons of all leading
    axes together. Zero, with zero gradient, when the target ties all pairs.

    Raises:
        ValueError: if the shapes differ.
    """
    student, target = _wide_pair(student, target)
    i, j = torch.triu_indices(*student.shape[-2:], offset=1, device=student.device)
    s, t = student[..., i, j], target[..., i, j]  # (..., b(b-1)/2)
    above = t[..., :, None] - t[..., None, :] > gap  # (..., u, v)
    hinge = (margin - (s[..., :, None] - s[..., None, :])).clamp_min(0)
    return hinge[above].sum() / above.sum().clamp_min(1)


def supcon(
    features: Tensor,  # (b, d)
    labels: Tensor,  # (b,) classes
    *,
    # ASK, section C.3.
    temperature: float = 0.07,
) -> Tensor:  # () nats
    """Supervised contrastive loss, mean_i of -1/|P(i)| Σ_{p∈P(i)} log softmax_{a≠i}(x̂_i·x̂_a / temperature)_p.

    ASK, section C.3 (Khosla et al. 2020, L_out). P(i) are the *other* images of the class of i; self-pairs
    are positives for nobody and stand in no denominator. Images without a positive are left out of the mean.

    Raises:
        ValueError: if no class has two images.
    """
    same = labels[:, None] == labels[None, :]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    positive = same & ~itself
    if not positive.any():
        raise ValueError(f"supcon needs two images of a class, but all {len(labels)} differ; draw by class")
    normalized = normalize(_wide_pair(features, features)[0], dim=-1)
    with torch.autocast(features.device.type, enabled=False):
        logits = normalized @ normalized.mT / temperature  # (b, b)
    log_softmax = logits - logits.masked_fill(itself, -torch.inf).logsumexp(-1, keepdim=True)
    count = positive.sum(-1)
    return -((log_softmax * positive).sum(-1)[count > 0] / count[count > 0]).mean()


def kl_anchor(
    student_logits: Tensor,  # (b, m) scaled cosine of images and anchor texts
    reference_logits: Tensor,  # (b, m) the same from the frozen model
    *,
    direction: str = "reference-student",
) -> Tensor:  # () nats
    """Kullback-Leibler divergence of anchor distributions, mean_b of Σ_m P⁰_m·(log P⁰_m - log P_m).

    ASK, eq. (6) and (7), with P⁰ and P the softmax of the reference's and the student's logits. Sums over the
    m texts and divides by b only. Zero with zero gradient where the student equals the reference.

    Args:
        direction: "reference-student" is KL(P⁰ ‖ P), the paper's default; "student-reference" is KL(P ‖ P⁰).

    Raises:
        ValueError: if the shapes differ or the direction is unknown.
    """
    student, reference = (logits.log_softmax(-1) for logits in _wide_pair(student_logits, reference_logits))
    if direction == "reference-student":
        first, second = reference, student
    elif direction == "student-reference":
        first, second = student, reference
    else:
        known = "'reference-student' or 'student-reference'"
        raise ValueError(f"direction must be {known}, but is {direction!r}; write one of the two")
    return (first.exp() * (first - second)).sum(-1).mean()


def feature_l2(
    student: Tensor,  # (b, d) un-normalised features
    reference: Tensor,  # (b, d) the same from the frozen model
) -> Tensor:  # () squared feature units
    """Squared Euclidean distance of features, mean over the batch of Σ_d (x_d - x⁰_d)².

    ASK, Table 19 (KUEA's anchor). *Sums* over d and averages over b.

    Raises:
        ValueError: if the shapes differ.
    """
    student, reference = _wide_pair(student, reference)
    return (student - reference).square().sum(-1).mean()


def feature_l1(
    student: Tensor,  # (b, d) un-normalised features
    reference: Tensor,  # (b, d) the same from the frozen model
) -> Tensor:  # () feature units
    """Absolute difference of features, mean over the batch *and* over d of |x_d - x⁰_d|.

    ASK, Table 19. The paper states no reduction; the mean is inferred from its weights. They run from hardly
    an anchor at 0.001 to a pinned student at 1, where a sum over d would pin it at 0.01 already.

    Raises:
        ValueError: if the shapes differ.
    """
    student, reference = _wide_pair(student, reference)
    return (student - reference).abs().mean()


def text_l1(
    student: Tensor,  # (m, d) text features
    reference: Tensor,  # (m, d) the same from the frozen model
) -> Tensor:  # () dimensionless
    """Absolute difference of *normalized* text features, mean over the m texts and over d.

    ASK, Table 19. Normalizes both sides itself, since only directions of texts enter eq. (6); the reduction
    is that of PromptSRC.

    Raises:
        ValueError: if the shapes differ.
    """
    return _direction_l1(student, reference)


def _direction_l1(student: Tensor, reference: Tensor) -> Tensor:
    student, reference = _wide_pair(student, reference)
    return feature_l1(normalize(student, dim=-1), normalize(reference, dim=-1))


def promptsrc(
    image: Tensor,  # (b, d) image features
    reference_image: Tensor,  # (b, d)
    *,
    text: Tensor,  # (m, d) text features
    reference_text: Tensor,  # (m, d)
    logits: Tensor,  # (b, m)
    reference_logits: Tensor,  # (b, m)
    # Khattak et al. (2023), section 4, for both numbers.
    image_weight: float = 10.0,
    text_weight: float = 25.0,
) -> Tensor:  # () dimensionless and nats
    """PromptSRC's self-consistency, KL(P⁰ ‖ P) + 10·|image L1| + 25·|text L1|.

    ASK, Table 19 (Khattak et al. 2023, the L_SCL term; its prompt averaging and text diversity are *not* part
    of it). Both L1 terms compare normalized features and average over all entries; the divergence is
    `kl_anchor`.

    Raises:
        ValueError: if the shapes of a pair differ.
    """
    images, texts = _direction_l1(image, reference_image), _direction_l1(text, reference_text)
    return kl_anchor(logits, reference_logits) + image_weight * images + text_weight * texts


def total(align: Tensor, anchor: Tensor, *, weight: float) -> Tensor:
    """The objective, L = L_align + λ·L_anchor, with ``weight`` = λ >= 0.

    ASK, eq. (8).

    Raises:
        ValueError: if the weight is negative.
    """
    if not weight >= 0:
        raise ValueError(f"the anchor weight must be >= 0, but is {weight}; the paper's default is 0.2")
    return align + weight * anchor
