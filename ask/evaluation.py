"""What a student is measured by: embeddings of whole image sets, and the paper's three numbers on them.

Joins models (ask.clip) and measures (ask.metrics), which know nothing of each other. In reading order: `embed`,
`embed_rows` and `embed_texts`, then `retrieval` (mAP, R@1, P@5), `zero_shot` (accuracy per benchmark) and the `Exam`
of all three.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ask import metrics
from ask.clip import Backbone, image_features, normalized, text_features, tokenize
from ask.kernels import Link, cosine_kernel, normalized_polynomial_kernel


@torch.no_grad()
def embed(
    backbone: Backbone, pixels: Tensor, batch: int = 128
) -> Tensor:  # (n, 3, h, w) -> (n, d) on the CPU
    """Un-normalised features of preprocessed pictures."""
    device = backbone.model.logit_scale.device
    parts = [image_features(backbone.model, chunk.to(device)).float().cpu() for chunk in pixels.split(batch)]
    return torch.cat(parts)


def embed_rows(
    backbone: Backbone,
    pixels: Callable[[np.ndarray], Tensor],  # rows (n,) -> (n, 3, h, w)
    rows: np.ndarray,  # (n,)
    batch: int = 512,
) -> Tensor:  # (n, d) on the CPU
    """Un-normalised features of as many pictures as there may be; only a batch of them is in memory."""
    chunks = np.array_split(rows, np.arange(batch, len(rows), batch))
    return torch.cat([embed(backbone, pixels(chunk)) for chunk in chunks])


@torch.no_grad()
def embed_texts(backbone: Backbone, texts: Sequence[str], batch: int = 256) -> Tensor:  # (m, d) on the CPU
    """Un-normalised features of prompts."""
    device = backbone.model.logit_scale.device
    chunks = tokenize(backbone, texts).split(batch)
    return torch.cat([text_features(backbone.model, chunk.to(device)).float().cpu() for chunk in chunks])


def retrieval(
    features: Tensor, labels: Sequence
) -> dict[str, float]:  # (n, d), n labels -> map, r_at_1, p_at_5
    """Class retrieval by cosine, every image a query against all others (ASK, eq. 9).

    P@5 is left out where fewer than five others can be retrieved.
    """
    labels = np.asarray(labels)
    relevance = labels[:, None] == labels[None, :]
    ranked = metrics.ranking(cosine_kernel(features).numpy(), relevance)
    found = {
        "map": metrics.mean_average_precision(ranked),
        "r_at_1": float(metrics.recall_at_k(ranked, 1).mean()),
    }
    if len(labels) > 5:
        found["p_at_5"] = float(metrics.precision_at_k(ranked, 5).mean())
    return found


def zero_shot(
    backbone: Backbone,
    benchmarks: Iterable[dict],  # as in benchmarks.json: name, classes, templates, paths, labels
    features: dict[str, Tensor],  # path -> (d,) un-normalised image features
) -> dict[str, float]:  # benchmark name -> top-1 accuracy in [0, 1]
    """Zero-shot accuracy with both towers of the student, class texts averaged over the templates."""
    accuracy = {}
    for task in benchmarks:
        prompts = [template.format(name) for name in task["classes"] for template in task["templates"]]
        texts = embed_texts(backbone, prompts).split(len(task["templates"]))
        images = normalized(torch.stack([features[path] for path in task["paths"]]))
        accuracy[task["name"]] = metrics.zero_shot_accuracy(
            images, metrics.class_text_features(list(texts)), np.asarray(task["labels"])
        )
    return accuracy


@dataclass(frozen=True)
class Exam:
    """What every student of a task is measured on: fidelity, unseen-class retrieval and zero-shot accuracy.

    Fidelity compares the normalized kernel with raw scores on all pairs of ``heldout``; retrieval ranks ``gallery`` by
    cosine; what a dataset has no labels or benchmarks for is left out of the result.
    """

    heldout: np.ndarray  # (n,) rows
    scores: Tensor  # (n, n) the judge's similarities of these rows
    gallery: np.ndarray  # (q,) rows of classes that are not trained on; may be empty
    manifest: pd.DataFrame
    benchmarks: list[dict]
    link: Link

    @property
    def rows(self) -> np.ndarray:  # (n + q,)
        """The rows whose features `take` returns."""
        return np.concatenate([self.heldout, self.gallery])

    @cached_property
    def tested(self) -> np.ndarray:  # (t,)
        """The rows of the benchmarks' pictures."""
        paths = {path for task in self.benchmarks for path in task["paths"]}
        return np.flatnonzero(self.manifest["path"].isin(paths))

    def take(
        self,
        student: Backbone,
        pixels: Callable[[np.ndarray], Tensor],  # rows (n,) -> (n, 3, h, w)
    ) -> tuple[dict[str, float], Tensor]:  # flat metrics, (n + q, d) un-normalised features of `rows`
        """Measures a student; accuracies, mAP and the like are fractions, not per cent."""
        features = embed(student, pixels(self.rows))
        kernel = normalized_polynomial_kernel(features[: len(self.heldout)], self.link)
        result = {"fidelity": metrics.fidelity(kernel, self.scores)}
        labels = self.manifest["label"].to_numpy()[self.gallery]
        if len(labels) and (labels != "").all():
            result |= retrieval(features[len(self.heldout) :], labels)
        if self.benchmarks:
            paths = self.manifest["path"].to_numpy()[self.tested]
            shown = dict(zip(paths, embed_rows(student, pixels, self.tested), strict=True))
            accuracy = zero_shot(student, self.benchmarks, shown)
            result["zero_shot"] = float(np.mean(list(accuracy.values())))
            result |= {f"zero_shot_{name.replace(' ', '_')}": value for name, value in accuracy.items()}
        return result, features
