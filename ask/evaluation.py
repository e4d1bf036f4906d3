"""What a student is measured by: the paper's three numbers, on embeddings of whole image sets.

Joins models (ask.embedding) and measures (ask.metrics), which know nothing of each other. In reading order: `retrieval`
(mAP, R@1, P@5), `zero_shot` (accuracy per benchmark) and the `Exam` of all three, fidelity included.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ask import metrics, rankings
from ask.clip import Backbone, normalized
from ask.embedding import embed, embed_rows, embed_texts
from ask.kernels import Link, normalized_polynomial_kernel


def retrieval(
    features: Tensor,  # (n, d), on the device that is to compare them
    labels: Sequence,  # n
    queries: int = 1024,  # compared at a time; all pairs at once need memory for n² numbers
) -> dict[str, float]:  # map, r_at_1, p_at_5
    """Class retrieval by cosine, every image a query against all others (ASK, eq. 9).

    P@5 is left out where fewer than five others can be retrieved.
    """
    labels, ids = np.unique(labels, return_inverse=True)[1], np.arange(len(features))
    compared = normalized(features)
    precisions, firsts, fives = [], [], []
    for chunk in np.split(ids, range(queries, len(ids), queries)):
        relevance = labels[chunk, None] == labels[None]
        if not (relevance.sum(1) > 1).any():  # nothing to find for any of them
            continue
        ranked = rankings.ranking(compared[chunk] @ compared.mT, relevance, query_ids=chunk, gallery_ids=ids)
        precisions.append(rankings.average_precision(ranked))
        firsts.append(rankings.recall_at_k(ranked, 1))
        if len(ids) > 5:
            fives.append(rankings.precision_at_k(ranked, 5))
    if not precisions:
        raise metrics.NoInformationError(
            f"none of {len(ids)} images has another of its class; check the labels"
        )
    found = {"map": precisions, "r_at_1": firsts} | ({"p_at_5": fives} if fives else {})
    return {name: float(np.concatenate(values).mean()) for name, values in found.items()}


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
        kept: Path | None = None,  # see `embed_rows`
    ) -> tuple[dict[str, float], Tensor]:  # flat metrics, (n + q, d) un-normalised features of `rows`
        """Measures a student; accuracies, mAP and the like are fractions, not per cent."""
        features = embed(student, pixels(self.rows))
        kernel = normalized_polynomial_kernel(features[: len(self.heldout)], self.link)
        result = {"fidelity": metrics.fidelity(kernel, self.scores)}
        labels = self.manifest["label"].to_numpy()[self.gallery]
        if len(labels) and (labels != "").all():
            place = student.model.logit_scale.device
            result |= retrieval(features[len(self.heldout) :].to(place), labels)
        if self.benchmarks:
            paths = self.manifest["path"].to_numpy()[self.tested]
            shown = dict(zip(paths, embed_rows(student, pixels, self.tested, kept=kept), strict=True))
            accuracy = zero_shot(student, self.benchmarks, shown)
            result["zero_shot"] = float(np.mean(list(accuracy.values())))
            result |= {f"zero_shot_{name.replace(' ', '_')}": value for name, value in accuracy.items()}
        return result, features
