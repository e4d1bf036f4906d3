"""Retrieval against what people annotated: `python -m ask.annotated ROOT BACKBONE [--student NAME=ADAPTER]...`.

CUB's attributes, PASCAL3D+'s azimuths, COCO-Stuff's backgrounds and AP-10K's poses (ASK, D.5). Nothing is trained on
them, and no judge is asked. In reading order: `main`; `query_sets`, what is asked of which pictures; `measure`, nDCG@10
of every encoder by query; `compared`, their means and how sure a difference from the untrained one is.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ask import clip, metrics, rankings
from ask.adapter import load_adapter
from ask.compute import best_device
from ask.datasets.dataset import Dataset
from ask.datasets.formats import ap10k, cocostuff, cub, pascal3d, read
from ask.datasets.manifest import read_manifest
from ask.datasets.members import Members
from ask.datasets.recognise import by_dataset, recognise
from ask.datasets.source import LayoutError, Source
from ask.embedding import embed_rows
from ask.kernels import cosine_kernel
from ask.params import get
from ask.relevance import Annotated

CUT = 10  # of nDCG
UNTRAINED = "untrained"
ANNOTATED = ("cub", "pascal3d", "cocostuff", "ap10k")
BIRDS, LEFT_BIRDS = 11_788, 2_903  # pictures of CUB; test pictures of the species that the paper kept aside
QUERIES = {  # criterion -> the paper's queries, and those of the species kept aside
    "wing colour": (4_985, 2_526),
    "bill shape": (5_266, 2_634),
    "breast pattern": (5_001, 2_485),
}
CARS, BACKGROUNDS, POSES = 86, 3_701, 517


@dataclass(frozen=True)
class QuerySet:
    """Pictures of one dataset that are queries of one criterion.

    Attributes:
        published: how many queries the paper has; 0 where it does not say.
    """

    name: str
    source: Source
    annotated: Annotated
    published: int


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the command line says and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ask.annotated", description=__doc__.split(":")[0])
    parser.add_argument("root", type=Path, help="the folder that holds the datasets, one in each subfolder")
    parser.add_argument("backbone", help="of the catalogue in params.yaml")
    parser.add_argument(
        "--student", action="append", default=[], metavar="NAME=ADAPTER", help="folder of an adapter"
    )
    parser.add_argument(
        "--apart", type=Path, metavar="MANIFEST", help="CUB: only species that this trains on none of"
    )
    parser.add_argument("--cut", type=int, default=CUT, help="of nDCG")
    parser.add_argument("--out", type=Path, help="a .json for the means and intervals")
    given = parser.parse_args(argv)
    try:
        folders = {name: one.folder for name, one in by_dataset(recognise(given.root)).items()}
        sets = query_sets(folders, apart=read_manifest(given.apart) if given.apart else None)
        entry = get(f"backbones.{given.backbone}", dict)
        plain = clip.load_backbone(given.backbone, entry, str(best_device()))
        encoders = {UNTRAINED: plain} | {
            name: replace(plain, model=load_adapter(plain, folder)[0])
            for name, folder in _named(given.student).items()
        }
        table = compared(measure(sets, encoders, given.cut), seed=get("seed", int))
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table.round(2).to_string(index=False))
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        table.to_json(given.out, orient="records", indent=1)
    return 0


def query_sets(
    folders: Mapping[str, Path],  # dataset -> where it is
    *,
    apart: pd.DataFrame | None = None,  # a manifest; birds of the species that it trains on are left out
) -> list[QuerySet]:
    """Every criterion that the datasets which are there can be asked for.

    Raises:
        LayoutError: if none of the four is there, or CUB is complete and has another number of queries than the paper.
    """
    # Read from their own folders: CUB's attributes are looked for below the source's root.
    sources = {name: read(name, folder) for name, folder in folders.items() if name in ANNOTATED}
    sets: list[QuerySet] = []
    if source := sources.get("cub"):
        sets += _birds(source, apart)
    if source := sources.get("pascal3d"):
        there = [one for one in pascal3d.CATEGORIES if (source.table["label"] == one).sum() > 1]
        sets += [
            QuerySet(f"{one} viewpoint", source, pascal3d.viewpoint(source, one), CARS if one == "car" else 0)
            for one in there
        ]
    if source := sources.get("cocostuff"):
        sets.append(
            QuerySet(
                "background", source, cocostuff.backgrounds(source, cocostuff.shares(source)), BACKGROUNDS
            )
        )
    if source := sources.get("ap10k"):
        sets.append(QuerySet("pose", source, ap10k.poses(source), POSES))
    if not sets:
        raise LayoutError(
            f"none of {', '.join(ANNOTATED)} is there; python -m ask.datasets.paper ROOT lists what is recognised"
        )
    return sets


def measure(
    sets: Sequence[QuerySet],
    encoders: Mapping[str, clip.Backbone],  # the first is what the others are compared with
    cut: int = CUT,
) -> dict[str, tuple[QuerySet, pd.DataFrame]]:  # criterion -> queries x (cluster, encoders in [0, 1])
    """Retrieves by cosine and scores every query that has something to find; a picture is embedded once."""
    found: dict[str, pd.DataFrame] = {}
    for home in {one.source.name: one.source for one in sets}.values():
        mine = [one for one in sets if one.source is home]
        rows = np.unique(np.concatenate([one.annotated.rows for one in mine]))
        pictures = _dataset(home)
        for name, encoder in encoders.items():
            place = encoder.model.logit_scale.device
            features = embed_rows(encoder, pictures.pixels((), encoder.preprocess, place), rows)
            for one in mine:
                own = features[np.searchsorted(rows, one.annotated.rows)]
                ranked = rankings.ranking(
                    cosine_kernel(own), one.annotated.relevance, eligible=one.annotated.eligible
                )
                table = found.setdefault(
                    one.name, pd.DataFrame({"cluster": one.annotated.clusters[ranked.queries]})
                )
                table[name] = rankings.ndcg_at_k(ranked, cut)
    return {one.name: (one, found[one.name]) for one in sets}


def compared(
    measured: Mapping[str, tuple[QuerySet, pd.DataFrame]],
    *,
    seed: int,
) -> pd.DataFrame:  # criterion, encoder, queries, paper_queries, ndcg in points, gain and its 95 % interval
    """A row per criterion and encoder; gains are over the first encoder, resampled by cluster (ASK, D.5)."""
    rows = []
    for name, (asked, table) in measured.items():
        first, *others = table.columns[1:]
        told = {"criterion": name, "queries": len(asked.annotated.rows), "paper_queries": asked.published}
        rows.append(told | {"encoder": first, "ndcg": 100 * table[first].mean()})
        for other in others:
            gains = 100 * (table[other] - table[first])
            low, high = metrics.clustered_bootstrap(gains.to_numpy(), table["cluster"].to_numpy(), seed=seed)
            mean = {"ndcg": 100 * table[other].mean(), "gain": gains.mean(), "low": low, "high": high}
            rows.append(told | {"encoder": other} | mean)
    order = ["criterion", "encoder", "queries", "paper_queries", "ndcg", "gain", "low", "high"]
    return pd.DataFrame(rows).reindex(columns=order)


def _named(students: Sequence[str]) -> dict[str, str]:  # name -> folder
    named: dict[str, str] = {}
    for one in students:
        name, sign, folder = one.partition("=")
        if not (name and sign and folder) or name == UNTRAINED or name in named:
            raise ValueError(
                f"--student takes a name of its own and a folder, wing=path/to/adapter, but is {one!r}"
            )
        named[name] = folder
    return named


def _birds(source: Source, apart: pd.DataFrame | None) -> list[QuerySet]:
    species, left = None, None
    if apart is not None:
        trained = set(apart["label"][apart["split"] == "train"])
        if strays := sorted(trained - set(source.classes)):
            raise LayoutError(f"{strays[0]!r} is no species of CUB; give the manifest that birds trained on")
        species = np.array([index for index, name in enumerate(source.classes) if name not in trained])
        test = source.table[source.table["part"] == "test"]
        left = int(test["index"].isin(species).sum())
    sets = []
    for criterion, (all_species, other_species) in QUERIES.items():
        annotated = cub.attributes(source, criterion, species=species)
        # Another hundred species than the authors' have another number of queries.
        published = all_species if left is None else other_species if left == LEFT_BIRDS else 0
        if published and len(source.table) == BIRDS and len(annotated.rows) != published:
            raise LayoutError(
                f"CUB has all {BIRDS} pictures, but {criterion} has {len(annotated.rows)} queries instead of "
                f"{published}; its attribute table or its parts are not the authors'"
            )
        sets.append(QuerySet(criterion, source, annotated, published))
    return sets


def _dataset(source: Source) -> Dataset:
    everything = np.full(len(source.table), True)
    return Dataset(source.manifest, Members(source.root), everything, source.notes, source.name, source.root)


if __name__ == "__main__":
    sys.exit(main())
