"""Is the untrained backbone the one that was published? A gate: `python -m ask.baseline BACKBONE TASK`.

A wrong activation, preprocessing or order of labels gives numbers that look plausible. In reading order: `main`,
`measure`, `compare`, `check`.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ask import clip, evaluation
from ask.compute import best_device
from ask.datasets.benchmarks import BENCHMARKS
from ask.datasets.dataset import Dataset, open_dataset
from ask.embedding import embed_rows
from ask.params import get
from ask.paths import root
from ask.published import published

# CLIP_benchmark's accuracies of OpenAI's weights in per cent, LAION-AI/CLIP_benchmark@48de38c benchmark/benchmark.csv.
CLIP_BENCHMARK = {
    "ViT-B/32": [63.33, 89.82, 64.53, 81.92, 40.94, 87.33, 44.26, 53.76, 50.72, 62.19, 42.30, None],
    "ViT-B/16": [68.35, 90.83, 66.91, 82.54, 45.82, 88.93, 44.57, 58.51, 55.59, 50.63, 48.14, None],
    "ViT-L/14": [75.49, 95.69, 76.13, 83.86, 48.97, 93.08, 55.11, 63.52, 62.67, 51.60, 59.62, None],
    "ViT-L/14-336": [76.55, 94.97, 74.64, 83.79, 48.01, 93.81, 55.69, 63.71, 61.91, 61.28, 61.05, None],
}
PUBLISHED = {
    "vit-b-32": "ViT-B/32",
    "vit-b-16": "ViT-B/16",
    "vit-l-14": "ViT-L/14",
    "vit-l-14-336": "ViT-L/14-336",
}
TOLERANCE = {"imagenet": 2.0, "cifar10": 1.0, "cifar100": 1.5, "fer2013": 1.5, "pcam": 2.0, "eurosat": 1.5}
USUAL = 1.0  # points, for the others


class BaselineError(ValueError):
    """An untrained backbone does not reproduce published accuracies; the message says where and why, most likely."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what the command line names, prints the comparison and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ask.baseline", description="Compare with what was published."
    )
    parser.add_argument("backbone", choices=sorted(PUBLISHED), help="of the catalogue in params.yaml")
    parser.add_argument("task", help="of the catalogue; its world has the benchmarks")
    parser.add_argument("--params", help="a profile's params.yaml, relative to the root")
    parser.add_argument("--out", type=Path, help="a .json for the comparison, relative to the root")
    given = parser.parse_args(argv)
    if given.params:
        os.environ["ASK_PARAMS"] = given.params
    pictures, manifest = get("pictures", str), get("manifest", str)
    dataset = open_dataset(pictures, manifest, task=get(f"tasks.{given.task}", dict), seed=get("seed", int))
    try:
        measured = measure(
            clip.load_backbone(given.backbone, get(f"backbones.{given.backbone}", dict), str(best_device())),
            dataset,
        )
        table = check(PUBLISHED[given.backbone], measured).round(2)
    except BaselineError as error:
        print(error, file=sys.stderr)
        return 1
    print(table.to_string())
    if given.out:
        file = root() / given.out
        file.parent.mkdir(parents=True, exist_ok=True)
        table.to_json(file, orient="index", indent=1)
    return 0


def measure(backbone: clip.Backbone, dataset: Dataset) -> dict[str, float]:  # benchmark -> accuracy in [0, 1]
    """Zero-shot accuracy on every benchmark of a world that was published for the same pictures.

    Raises:
        BaselineError: if there is none.
    """
    known = [one for one in dataset.benchmarks() if one.get("comparable")]
    if not known:
        raise BaselineError(
            f"{dataset.home} has no benchmark that was published; add one of {', '.join(BENCHMARKS)}"
        )
    rows = dataset.find(path for one in known for path in one["paths"])
    place = backbone.model.logit_scale.device
    features = embed_rows(backbone, dataset.pixels((), backbone.preprocess, place), rows)
    shown = dict(zip(dataset.manifest["path"].to_numpy()[rows], features, strict=True))
    return evaluation.zero_shot(backbone, known, shown)


def compare(
    backbone: str,  # as in the paper's Table 6: ViT-B/16
    measured: Mapping[str, float],  # benchmark -> accuracy in [0, 1]
) -> (
    pd.DataFrame
):  # measured, paper, CLIP_benchmark, tolerance in points; off: distance to the nearer of the two
    """Measured accuracies beside the two published ones.

    Raises:
        BaselineError: for a backbone or benchmark that nobody published.
    """
    if backbone not in CLIP_BENCHMARK:
        raise BaselineError(f"nobody published {backbone!r}; known are {', '.join(CLIP_BENCHMARK)}")
    if strays := sorted(set(measured) - set(BENCHMARKS)):
        raise BaselineError(f"{strays[0]!r} is none of the benchmarks {', '.join(BENCHMARKS)}")
    theirs = dict(zip(BENCHMARKS, CLIP_BENCHMARK[backbone], strict=True))
    rows = {
        name: {
            "measured": 100 * value,
            "paper": published("6", f"{backbone} / Untrained CLIP", BENCHMARKS[name].column),
            "clip_benchmark": theirs[name],
            "tolerance": TOLERANCE.get(name, USUAL),
        }
        for name, value in measured.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index").astype(float)
    apart = table[["paper", "clip_benchmark"]].sub(table["measured"], axis=0)
    return table.assign(off=apart.abs().min(axis=1))


def check(backbone: str, measured: Mapping[str, float]) -> pd.DataFrame:
    """Like `compare`, but a mismatch stops.

    Raises:
        BaselineError: naming the benchmarks that are off, by how much, and the likely cause.
    """
    table = compare(backbone, measured)
    wrong = table[table["off"] > table["tolerance"]]
    if len(wrong):
        told = ", ".join(
            f"{name} {row.measured:.1f} instead of {row.paper:.1f}" for name, row in wrong.iterrows()
        )
        raise BaselineError(f"untrained {backbone} is not what was published: {told}; {_cause(table, wrong)}")
    return table


def _cause(table: pd.DataFrame, wrong: pd.DataFrame) -> str:
    lost = table["paper"] - table["measured"]
    if len(wrong) < max(2, len(table) / 2):
        return "most are right, so look at the order of the classes, the names and the test part of these"
    if lost.median() > 10:
        return (
            "all are far off, so look at the preprocessing (size, crop, mean and deviation) and the tokenizer"
        )
    return "most are a little off, so look at the activation: OpenAI's weights need a -quickgelu architecture"


if __name__ == "__main__":
    sys.exit(main())
