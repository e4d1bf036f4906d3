"""The paper's twelve zero-shot benchmarks: which pictures, which names, which templates (ASK, C.1).

They are CLIP_benchmark's, names and templates string by string. Three of them have test parts that only TFDS knows; a
webdataset copy holds these, and without one a part of the same size is drawn here and marked as not comparable. In
reading order: `BENCHMARKS`, `benchmark`, `anchor_texts`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from ask.datasets.domains import in_lots
from ask.datasets.formats import imagenet_o, webdataset
from ask.datasets.formats.imagenet import wnids
from ask.datasets.source import LayoutError, Source
from ask.digest import sha256

OWN_SHARE = 0.2  # of the pictures, where the published test part cannot be told from the files


@dataclass(frozen=True)
class Benchmark:
    """How a benchmark is made of a dataset.

    Attributes:
        column: the paper's name of it.
        part: of the dataset; empty where it has none, then a share of all pictures is drawn.
        names: list of names in CLIP_benchmark; empty where the data's own are used.
        templates: list of templates in CLIP_benchmark.
        per_class: pictures of each class, all if 0.
    """

    column: str
    part: str
    names: str
    templates: str
    per_class: int = 0


BENCHMARKS = {
    "imagenet": Benchmark("IN-1k", "val", "imagenet1k", "imagenet1k", per_class=10),
    "cifar10": Benchmark("C-10", "test", "", "cifar10"),
    "cifar100": Benchmark("C-100", "test", "", "cifar100"),
    "caltech101": Benchmark("Caltech", "", "caltech101_vtab", "caltech101"),
    "fer2013": Benchmark("FER", "test", "fer2013", "fer2013"),
    "pets": Benchmark("Pets", "test", "pets", "pets"),
    "dtd": Benchmark("DTD", "test", "", "dtd"),
    "resisc45": Benchmark("RESISC", "", "", "resisc45"),
    "eurosat": Benchmark("EuroSAT", "", "eurosat", "eurosat"),
    "pcam": Benchmark("PCam", "test", "pcam", "pcam"),
    "imagenet_sketch": Benchmark("IN-Sk.", "test", "imagenet1k", "imagenet1k"),
    "imagenet_o": Benchmark("IN-O", "test", "imagenet1k", "imagenet1k"),
}


def benchmark(
    name: str,
    source: Source,  # the dataset, or a webdataset copy of the benchmark
    *,
    seed: int,
    folder: Path,  # that holds it, and only it
    blanks: bool = True,  # underscores in names become blanks
) -> tuple[dict[str, Any], pd.DataFrame]:  # as in benchmarks.json; path, label, index of its pictures
    """A benchmark of the pictures that are there.

    Raises:
        LayoutError: if the dataset has other classes than there are names, or no picture of the part.
    """
    how = BENCHMARKS[name]
    copy = source.name.startswith(webdataset.COPY)
    classes = list(source.classes) if copy else names(name, source)
    if len(classes) != len(source.classes):
        raise LayoutError(f"{name}: {len(source.classes)} classes in {source.root}, but {len(classes)} names")
    texts = list(webdataset.templates(folder)) if copy else _listed("templates")[how.templates]
    table = source.table if not how.part or copy else source.table[source.table["part"] == how.part]
    if how.per_class:
        table = table[in_lots(table["path"], seed).groupby(table["index"]).rank() <= how.per_class]
    elif not how.part and not copy:
        table = table[in_lots(table["path"], seed) < OWN_SHARE * len(table)]
    if table.empty:
        raise LayoutError(f"{name}: there is no picture of the part {how.part or 'drawn'} in {source.root}")
    table = table.sort_values("path", ignore_index=True)
    classes = [one.replace("_", " ") if blanks else one for one in classes]
    templates = [text.replace("{c}", "{}") for text in texts]
    told = {
        "name": name,
        "column": how.column,
        "comparable": bool(how.part) or copy,
        "classes": classes,
        "templates": templates,
        "texts_hash": sha256({"classes": classes, "templates": templates}),
        "paths": table["path"].tolist(),
        "labels": table["index"].tolist(),
    }
    return told, table[["path", "label", "index"]]


def names(name: str, source: Source) -> list[str]:
    """The class names of a benchmark in the order of its classes."""
    how = BENCHMARKS[name]
    if not how.names:
        return list(source.classes)
    listed = _listed("classnames")[how.names]
    if name != "imagenet_o":
        return listed
    return [listed[wnids().index(wnid)] for wnid in imagenet_o.members()]


def anchor_texts(template: str = "a photo of a {}.") -> list[str]:  # 1,000
    """ImageNet's class names as prompts: a list, for two names come twice (ASK, C.2)."""
    return [template.format(name) for name in _listed("classnames")["imagenet1k"]]


@cache
def _listed(what: str) -> dict[str, Sequence[str]]:
    """CLIP_benchmark's English class names or templates."""
    file = {"classnames": "en_classnames.json", "templates": "en_zeroshot_classification_templates.json"}[
        what
    ]
    try:
        folder = resources.files("clip_benchmark") / "datasets"
    except ModuleNotFoundError:
        raise LayoutError(
            "names and templates of benchmarks are clip-benchmark's; install it with pip install 'ask[datasets]'"
        ) from None
    return json.loads((folder / file).read_text(encoding="utf-8"))
