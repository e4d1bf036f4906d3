"""python -m ask.datasets.world: writes the miniature world to results/world.

Five domains of species (the analogues of dogs, textures, flowers, cars and pets), split as the paper splits them, with
zero-shot benchmarks, an anchor bank and attribute annotations. Everything follows from section ``world`` of
params.yaml. Files: manifest.csv, pictures.zip, benchmarks.json, anchor.json, annotations.csv, sheet.png.
"""

import io
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from tqdm import tqdm

from ask import params, paths
from ask.datasets import factors, render
from ask.datasets.pictures import write_pack

SPLITS = ("train", "heldout", "validation", "gallery")
_ATTRIBUTES = ("silhouette", "lobes", "texture", "colour", "background", "pose")


def manifest(entry: dict) -> pd.DataFrame:  # one row a picture
    """Every picture's path, label, split and factors.

    ``train``, ``heldout`` and ``validation`` show the same species, ``gallery`` species of their own; ``outside``
    holds other domains' species that appear nowhere else, ``bench`` one picture of each of many species.

    Args:
        entry: section ``world``: seed, domains (name -> classes, pictures of each per split, palette), outside,
            bench.
    """
    rng = np.random.default_rng(entry["seed"])
    parts, taken = [], set()
    for domain, counts in entry["domains"].items():
        kinds = _unlike(rng, 2 * counts["classes"], domain, taken, counts.get("palette", factors.COLOURS))
        adaptation, unseen = kinds[: counts["classes"]], kinds[counts["classes"] :]
        for split in SPLITS:
            known = unseen if split == "gallery" else adaptation
            parts.append(_pictures(rng, known, counts[split]).assign(split=split))
    strangers = [domain for domain in factors.DOMAINS if domain != next(iter(entry["domains"]))]
    for domain in strangers:
        kinds = _unlike(rng, entry["outside"] // len(strangers) // 4, domain, taken)
        parts.append(_pictures(rng, kinds, 4).assign(split="outside"))
    parts.append(_pictures(rng, _unlike(rng, entry["bench"], None, taken), 1).assign(split="bench"))
    rows = pd.concat(parts, ignore_index=True)
    place = rows.groupby(["split", "label"]).cumcount().astype(str).str.zfill(2)
    rows.insert(0, "path", rows.split + "/" + rows.label + "_" + place + ".jpg")
    return rows[
        ["path", "label", "split", "domain", "name", *factors.SPECIES_COLUMNS[1:], *factors.VIEW_COLUMNS]
    ]


def _unlike(
    rng: np.random.Generator,
    n: int,
    domain: str | None,
    taken: set[str],
    palette: Iterable[str] = factors.COLOURS,
) -> pd.DataFrame:
    """``n`` species whose names nobody bears yet, labelled by domain and running number."""
    found = []
    while len(found) < n:
        for row in factors.species(rng, n, domain, tuple(palette)).itertuples(index=False):
            if len(found) < n and factors.name(row) not in taken:
                label = f"{row.domain}-{len(taken):04d}"
                taken.add(factors.name(row))
                found.append({**row._asdict(), "name": factors.name(row), "label": label})
    return pd.DataFrame(found)


def _pictures(rng: np.random.Generator, kinds: pd.DataFrame, each: int) -> pd.DataFrame:
    repeated = kinds.loc[kinds.index.repeat(each)].reset_index(drop=True)
    return repeated.join(factors.views(rng, len(repeated)))


def encoded(rows: pd.DataFrame, seed: int) -> list[tuple[str, bytes]]:  # (path, JPEG bytes) in manifest order
    """Draws every picture; picture i depends on the seed and i alone."""
    pack = []
    for i, row in enumerate(
        tqdm(rows.itertuples(index=False), total=len(rows), desc="pictures", mininterval=5)
    ):
        drawn = Image.fromarray(render.picture(row, np.random.default_rng([seed, i])))
        buffer = io.BytesIO()
        drawn.save(buffer, "JPEG", quality=85, subsampling=1)
        pack.append((row.path, buffer.getvalue()))
    return pack


def benchmarks(rows: pd.DataFrame) -> list[dict]:
    """Zero-shot benchmarks: name, class names, prompt templates, and each picture's path and class index."""
    tasks = []
    for domain in ("critters", "carts", "blooms"):
        found = rows[(rows.domain == domain) & (rows.split == "gallery")]
        tasks.append(
            _benchmark(f"{domain} by name", found, found.name, ["a photo of a {}", "a picture of a {}"])
        )
    bench = rows[rows.split == "bench"]
    creature = ["a photo of a {} creature", "a picture of a {} creature", "a {} creature"]
    scenes = bench.background.map(lambda scene: factors.SCENES[scene][0])
    view = ["a photo of a creature, {}", "a picture of a creature, {}"]
    tasks += [
        _benchmark("colours", bench, bench.colour, creature),
        _benchmark("textures", bench, bench.texture, creature),
        _benchmark("silhouettes", bench, bench.silhouette, ["a photo of a {}", "a picture of a {}", "a {}"]),
        _benchmark("backgrounds", bench, scenes, view),
        _benchmark("poses", bench, bench["rotation"].map(factors.pose), view),
    ]
    return tasks


def _benchmark(name: str, rows: pd.DataFrame, classes: pd.Series, templates: list[str]) -> dict:
    known = sorted(set(classes))
    labels = [known.index(value) for value in classes]
    return {
        "name": name,
        "classes": known,
        "templates": templates,
        "paths": list(rows.path),
        "labels": labels,
    }


def anchor_bank(rows: pd.DataFrame, tasks: list[dict], n: int, seed: int) -> list[str]:  # n prompts
    """The text bank of the KL anchor: names of things, as ImageNet's class names are in the paper.

    It shares names with one benchmark, that of the adaptation domain; the rest are random species, half of them with
    a pose and a place. No other benchmark's class name is in it.
    """
    rng = np.random.default_rng([seed, 7])
    others = {name for task in tasks[1:] for name in task["classes"]}
    bank = list(tasks[0]["classes"])
    strangers, sights = factors.species(rng, 2 * n), factors.views(rng, 2 * n)
    for row, view in zip(strangers.itertuples(), sights.itertuples(), strict=True):
        where = (
            f", {factors.pose(view.rotation)}, {factors.SCENES[view.background][0]}"
            if rng.random() < 0.5
            else ""
        )
        if factors.name(row) not in others and len(bank) < n:
            bank.append(factors.name(row) + where)
    return [f"a photo of a {name}" for name in bank]


def annotations(rows: pd.DataFrame, seed: int) -> pd.DataFrame:  # path, attribute, value, certainty
    """Attribute annotations standing in for human ones, certain from 1 to 4; the less certain, the more often wrong."""
    rng = np.random.default_rng([seed, 8])
    shown = rows[rows.split.isin(["gallery", "outside"])].assign(
        pose=lambda r: r["rotation"].map(factors.pose)
    )
    long = shown.melt(id_vars="path", value_vars=list(_ATTRIBUTES), var_name="attribute").astype(
        {"value": str}
    )
    long["certainty"] = rng.choice([1, 2, 3, 4], len(long), p=[0.05, 0.15, 0.3, 0.5])
    wrong = rng.random(len(long)) < np.array([0.5, 0.2, 0.05, 0.01])[long.certainty - 1]
    values = {attribute: np.unique(group) for attribute, group in long.groupby("attribute")["value"]}
    slips = [rng.choice(values[attribute]) for attribute in long.attribute[wrong]]
    long.loc[wrong, "value"] = slips
    return long.sort_values(["path", "attribute"], ignore_index=True)


def sheet(rows: pd.DataFrame, pack: dict[str, bytes], across: int = 8) -> Image.Image:
    """A row of gallery species for each domain, to see the world at a glance."""
    shown = rows[rows.split == "gallery"].drop_duplicates("label").groupby("domain", sort=False).head(across)
    tiles = [np.array(Image.open(io.BytesIO(pack[path]))) for path in shown.path]
    lines = [np.concatenate(tiles[i : i + across], axis=1) for i in range(0, len(tiles), across)]
    return Image.fromarray(np.concatenate([line for line in lines if line.shape == lines[0].shape]))


def write(folder: Path, entry: dict) -> None:
    """Writes the world's six files; the same entry gives the same bytes on one machine."""
    rows = manifest(entry)
    tasks = benchmarks(rows)
    folder.mkdir(parents=True, exist_ok=True)
    rows.to_csv(folder / "manifest.csv", index=False, lineterminator="\n")
    pack = encoded(rows, entry["seed"])
    write_pack(folder / "pictures.zip", pack)
    sheet(rows, dict(pack)).save(folder / "sheet.png")
    (folder / "benchmarks.json").write_text(json.dumps(tasks, indent=1) + "\n", encoding="utf-8")
    bank = anchor_bank(rows, tasks, entry["anchor_texts"], entry["seed"])
    (folder / "anchor.json").write_text(json.dumps(bank, indent=1) + "\n", encoding="utf-8")
    annotations(rows, entry["seed"]).to_csv(folder / "annotations.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    write(paths.results("world"), params.get("world", dict))
