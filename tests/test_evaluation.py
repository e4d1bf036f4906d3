"""What a student is measured by, on a tiny CLIP and hand-made features."""

import numpy as np
import pandas as pd
import pytest
import torch

from ask import evaluation, metrics, rankings
from ask.clip import normalized
from ask.embedding import embed_texts
from ask.kernels import Link, cosine_kernel
from tests import tiny

PIXELS = tiny.pixels(10)
BENCHMARK = {
    "name": "two things",
    "classes": ["cat", "dog"],
    "templates": ["a photo of a {}", "a {}"],
    "paths": ["8", "9"],
    "labels": [0, 1],
}


def exam(labels, benchmarks):
    frame = pd.DataFrame({"path": [str(i) for i in range(10)], "label": labels})
    scores = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    scores = (scores + scores.T) / 2
    return evaluation.Exam(np.arange(4), scores, np.arange(4, 8), frame, benchmarks, Link(0.05, 0.5))


def test_retrieval_on_separated_classes_is_perfect():
    features = torch.eye(4).repeat_interleave(3, 0) + 0.01
    found = evaluation.retrieval(features, np.repeat(list("abcd"), 3))
    assert found == {"map": 1.0, "r_at_1": 1.0, "p_at_5": pytest.approx(0.4)}


def test_retrieval_in_parts_is_retrieval_at_once():
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    labels = np.arange(50) % 7
    labels[:4] = 90 + np.arange(4)  # alone in their classes, a whole part of them
    whole, parts = (evaluation.retrieval(features, labels, queries) for queries in (1024, 3))
    assert parts == pytest.approx(whole)
    ranked = rankings.ranking(cosine_kernel(features.double()), labels[:, None] == labels[None])
    assert whole["map"] == pytest.approx(rankings.mean_average_precision(ranked), abs=1e-6)


def test_retrieval_without_anything_to_find_says_so():
    with pytest.raises(metrics.NoInformationError, match="none of 3 images has another of its class"):
        evaluation.retrieval(torch.eye(3), list("abc"))


def test_zero_shot_takes_the_mean_of_the_templates():
    base = tiny.backbone()
    texts = embed_texts(base, ["a photo of a cat", "a cat", "a photo of a dog", "a dog"])
    cat, dog = normalized(normalized(texts).unflatten(0, (2, 2)).mean(1))
    found = evaluation.zero_shot(base, [BENCHMARK], {"8": 3 * cat, "9": 5 * dog})
    assert found == {"two things": 1.0}


def test_an_exam_reports_everything_there_is():
    found, features = exam(list("aabbccddee"), [BENCHMARK]).take(tiny.backbone(), lambda rows: PIXELS[rows])
    names = {"fidelity", "map", "r_at_1", "zero_shot", "zero_shot_two_things"}
    assert set(found) == names
    assert features.shape == (8, 24)


def test_without_labels_or_benchmarks_only_fidelity_is_left():
    found, _ = exam([""] * 10, []).take(tiny.backbone(), lambda rows: PIXELS[rows])
    assert set(found) == {"fidelity"}
