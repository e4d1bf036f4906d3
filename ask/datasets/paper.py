"""The step `data` of a paper-scale run: `python -m ask.datasets.paper ROOT [--out FOLDER] [--seed N]`.

Pointed at a folder of datasets, it lists what it recognises, with counts and problems, and draws one picture per class
as a contact sheet. With ``--out`` it also writes a world for every domain that is there: ``<domain>/manifest.csv``,
``benchmarks.json`` and ``anchor.json``, which is what a task's ``world`` names. ``--manifest dogs=FILE`` takes an
author's manifest in place of our own split.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ask.datasets.benchmarks import BENCHMARKS, anchor_texts, benchmark
from ask.datasets.domains import DOMAINS, birds, check_disjoint, draw, others, placed, write_manifest
from ask.datasets.manifest import ManifestError, read_manifest
from ask.datasets.members import Members
from ask.datasets.pictures import PictureError
from ask.datasets.recognise import Found, by_dataset, copied, recognise
from ask.datasets.source import Source

SHOWN = 48  # classes on a contact sheet
BIRDS = {"birds": None, "birds-disjoint": 100}  # world -> how many of the 200 species; ASK, D.5


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the command line says and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ask.datasets.paper", description=__doc__.split(":")[0])
    parser.add_argument("root", type=Path, help="the folder that holds the datasets, one in each subfolder")
    parser.add_argument(
        "--out", type=Path, help="where worlds and contact sheets go; nothing is written without"
    )
    parser.add_argument("--seed", type=int, default=0, help="of our own splits")
    parser.add_argument(
        "--manifest", action="append", default=[], metavar="DOMAIN=FILE", help="instead of a draw"
    )
    given = parser.parse_args(argv)
    try:
        found = recognise(given.root)
        print(summary(found).to_string(index=False))
        if given.out:
            sheets(found, given.out)
            told = dict(one.split("=", 1) for one in given.manifest)
            write_worlds(
                found, given.out, seed=given.seed, manifests={name: Path(file) for name, file in told.items()}
            )
    except (ManifestError, PictureError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def summary(found: Sequence[Found]) -> pd.DataFrame:
    """A row per subfolder: what it is, how many pictures and classes, and what is wrong with it."""
    rows = []
    for one in found:
        table = one.source.table if one.source else pd.DataFrame({"part": [], "label": []})
        parts = ", ".join(f"{n} {part}" for part, n in table["part"].value_counts().items() if part)
        told = "; ".join(one.source.notes) if one.source else one.problem or "not recognised"
        name = copied(one) or one.dataset
        rows.append((one.folder.name, name, len(table), table["label"].nunique(), parts, told))
    return pd.DataFrame(rows, columns=["folder", "dataset", "pictures", "classes", "parts", "remarks"])


def sheets(found: Sequence[Found], out: Path) -> None:
    """One picture of each class, a JPEG per dataset; a picture that cannot be read is named."""
    import matplotlib

    matplotlib.use("Agg")
    from ask.galleries import contact_sheet  # with matplotlib

    out.mkdir(parents=True, exist_ok=True)
    for one in found:
        if one.source and len(one.source.table):
            first = one.source.table.drop_duplicates("index")["path"].head(SHOWN)
            pictures = Members(one.source.root)
            axes = contact_sheet([pictures.load(path) for path in first], columns=8, note=one.folder.name)
            axes.figure.savefig(out / f"{one.folder.name}.jpg", dpi=80)
            matplotlib.pyplot.close(axes.figure)


def write_worlds(
    found: Sequence[Found],
    out: Path,
    *,
    seed: int,
    manifests: dict[str, Path],  # domain -> an author's manifest
) -> None:
    """Writes the world of every domain whose dataset is there, and says what each holds.

    Raises:
        ManifestError: if a domain cannot be drawn, or two of its pictures are the same.
    """
    sources = {name: one.source for name, one in by_dataset(found).items()}
    benches, shown = _benchmarks(found, seed)
    homes = {name: domain.dataset for name, domain in DOMAINS.items()} | dict.fromkeys(BIRDS, "cub")
    for name, dataset in homes.items():
        if dataset not in sources:
            continue
        source, own = sources[dataset], name not in manifests or _is_ours(manifests[name])
        drawn = _drawn(name, source, seed, manifests.get(name))
        check_disjoint(drawn, Members(source.root))
        home = out / name
        whole = pd.concat([drawn, _aside(shown, drawn)])
        digest = write_manifest(whole, home / "manifest.csv", seed=seed, domain=DOMAINS.get(name), own=own)
        (home / "benchmarks.json").write_text(json.dumps(benches) + "\n", encoding="utf-8")
        (home / "anchor.json").write_text(json.dumps(anchor_texts()) + "\n", encoding="utf-8")
        splits = ", ".join(f"{n} {split}" for split, n in drawn["split"].value_counts().items())
        print(
            f"{name}: {splits}, {len(benches)} benchmarks ({digest[:12]}, {'own split' if own else 'given'})"
        )


def _is_ours(manifest: Path) -> bool:
    """Whether the file beside a manifest says that it is a split of our own."""
    beside = manifest.with_suffix(".json")
    return beside.is_file() and bool(json.loads(beside.read_text(encoding="utf-8")).get("own split"))


def _drawn(name: str, source: Source, seed: int, given: Path | None) -> pd.DataFrame:
    if given:
        return placed(read_manifest(given), source).assign(domain=name)
    if name in BIRDS:
        return birds(source, seed=seed, species=BIRDS[name])
    drawn = draw(name, source, seed=seed)
    return pd.concat([drawn, others(source, seed=seed)]) if name == "dogs" else drawn


def _benchmarks(found: Sequence[Found], seed: int) -> tuple[list[dict], pd.DataFrame]:
    """All benchmarks that can be made, and the rows of their pictures; a copy goes before plain folders."""
    chosen: dict[str, Found] = {}
    for one in found:
        if (name := copied(one) or one.dataset) in BENCHMARKS and (name not in chosen or copied(one)):
            chosen[name] = one
    benches, rows = [], []
    for name in BENCHMARKS:
        if name not in chosen:
            continue
        told, table = benchmark(name, chosen[name].source, folder=chosen[name].folder, seed=seed)
        benches.append(told)
        rows.append(table.assign(split="bench", domain=f"bench {name}"))
    empty = pd.DataFrame(columns=["path", "label", "split", "index", "domain"])
    return benches, pd.concat([empty, *rows], ignore_index=True)[empty.columns]


def _aside(shown: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """The benchmarks' pictures that the domain has not drawn; a test part can be both a pool and a benchmark."""
    return shown[~shown["path"].isin(drawn["path"])]


if __name__ == "__main__":
    sys.exit(main())
