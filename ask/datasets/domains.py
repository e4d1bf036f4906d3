"""The paper's five domains drawn from their datasets: what every picture is for (ASK, C.1).

The authors' lists are not published with the paper. Ours are drawn by a stated seed from the pools stated here, by
names alone, and written down as manifests; an author's manifest takes their place by one param. In reading order:
`DOMAINS`, `draw`, `others` (the non-dog gallery), `birds`, `placed`, `check_disjoint`, `write_manifest`.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from ask.datasets.formats.imagenet import DOGS, wnids
from ask.datasets.manifest import ManifestError
from ask.datasets.pictures import Pictures
from ask.datasets.source import Source
from ask.datasets.wordnet import distances

# Six groups of breeds that supervision by labels tells apart (ASK, E.1); the 25 adaptation breeds contain them.
LABEL_GROUPS = (
    (
        "n02088364",
        "n02088632",
        "n02089078",
        "n02090379",
    ),  # beagle, bluetick, black-and-tan coonhound, redbone
    ("n02113624", "n02113712"),  # toy and miniature poodle
    ("n02093256", "n02093428"),  # Staffordshire bull terrier, American Staffordshire terrier
    ("n02086079", "n02086240"),  # Pekinese, Shih-Tzu
    ("n02093754", "n02094258"),  # Border terrier, Norwich terrier
    ("n02104029", "n02105505"),  # kuvasz, komondor
)
FARTHEST = 8  # WordNet edges between two of the 25 breeds; all of 2..8 occur
TRIALS = 100
WILD = slice(273, 276)  # dingo, dhole, African hunting dog: no breeds, and no non-dogs either


@dataclass(frozen=True)
class Domain:
    """How a domain is drawn.

    Attributes:
        parts: which column of the source says what may be drawn from: ``part`` or ``coop``.
        train, heldout, gallery: the parts that these pictures are drawn from; the pools.
    """

    dataset: str
    parts: str
    train: tuple[str, ...]
    heldout: tuple[str, ...]
    gallery: tuple[str, ...]
    unseen: int  # gallery classes
    classes: int = 25  # adaptation classes
    per_train: int = 40  # pictures per class
    per_heldout: int = 10
    per_validation: int = 0
    per_gallery: int = 20


DOMAINS = {
    "dogs": Domain("imagenet", "part", ("train",), ("train",), ("train",), unseen=25, per_validation=10),
    "pets": Domain("pets", "coop", ("train",), ("train",), ("test",), unseen=12),
    "textures": Domain("dtd", "coop", ("train",), ("train",), ("test",), unseen=20),
    "cars": Domain("cars", "coop", ("train", "val"), ("test",), ("test",), unseen=25),
    "flowers": Domain("flowers", "coop", ("train", "val"), ("test",), ("test",), unseen=25),
}


def draw(
    name: str,
    source: Source,
    *,
    seed: int,
    classes: Sequence[str] | None = None,  # labels to adapt on, instead of drawn ones
    unseen: Sequence[str] | None = None,  # labels of the gallery
) -> pd.DataFrame:  # path, label, split, index, domain
    """Draws a domain's pictures; the same seed and names always give the same.

    Raises:
        ManifestError: if a pool has too few classes or pictures, with the counts.
    """
    domain = DOMAINS[name]
    if domain.parts not in source.table:
        raise ManifestError(
            f"{name} is drawn from CoOp's split, but {source.root} holds no split_zhou_*.json; add it"
        )
    pools = {
        use: source.table[source.table[domain.parts].isin(getattr(domain, use))]
        for use in ("train", "heldout", "gallery")
    }
    adapted = [*classes] if classes is not None else _classes(name, domain, source, pools, seed)
    rest = [label for label in dict.fromkeys(source.table["label"]) if label not in set(adapted)]
    fits = _with_enough(pools["gallery"], rest, domain.per_gallery)
    others = [*unseen] if unseen is not None else _ordered(fits, seed)[: domain.unseen]
    if len(others) < domain.unseen:
        raise ManifestError(
            f"{name}: {len(others)} classes have {domain.per_gallery} pictures for the gallery, {domain.unseen} asked"
        )
    train = _deal(pools["train"], adapted, {"train": domain.per_train}, seed, domain.train)
    left = pools["heldout"][~pools["heldout"]["path"].isin(train["path"])]
    uses = {"heldout": domain.per_heldout, "validation": domain.per_validation}
    aside = _deal(left, adapted, uses, seed, domain.heldout)
    gallery = _deal(pools["gallery"], others, {"gallery": domain.per_gallery}, seed, domain.gallery)
    drawn = pd.concat([train, aside, gallery], ignore_index=True)
    return drawn.assign(domain=name)[["path", "label", "split", "index", "domain"]]


def others(
    source: Source,  # ImageNet
    *,
    seed: int,
    classes: int = 50,
    per_class: int = 4,
    part: str = "train",
) -> pd.DataFrame:  # path, label, split, index, domain
    """Pictures of no dogs, on which dog-trained students are tried (ASK, Tables 7 and 8); their split is outside.

    Raises:
        ManifestError: if there are too few classes or pictures.
    """
    table = source.table[(source.table["part"] == part) & ~source.table["index"].isin(_canines())]
    fits = _with_enough(table, dict.fromkeys(table["label"]), per_class)
    if len(fits) < classes:
        raise ManifestError(f"{len(fits)} classes of no dogs have {per_class} pictures, {classes} asked")
    chosen = _ordered(fits, seed)[:classes]
    drawn = _deal(table, chosen, {"outside": per_class}, seed, (part,))
    return drawn.assign(domain="others")[["path", "label", "split", "index", "domain"]]


def birds(
    source: Source,  # CUB
    *,
    seed: int,
    train: int = 992,
    heldout: int = 250,
    species: int | None = None,  # so many species only, the others being kept for evaluation
) -> pd.DataFrame:  # path, label, split, index, domain
    """Pictures of CUB's training part, sampled without regard to species (ASK, D.5).

    The paper measures no fidelity here; the held-out pictures are ours, so that the notebooks can.

    Raises:
        ManifestError: if there are too few pictures.
    """
    chosen = _ordered(dict.fromkeys(source.table["label"]), seed)[:species]
    pool = source.table[(source.table["part"] == "train") & source.table["label"].isin(chosen)]
    if len(pool) < train + heldout:
        raise ManifestError(f"birds: {len(pool)} training pictures, {train} and {heldout} held out asked")
    lots = in_lots(pool["path"], seed)
    drawn = pool[lots < train + heldout].assign(domain="birds")
    drawn["split"] = lots[drawn.index].map(lambda lot: "train" if lot < train else "heldout")
    return drawn.sort_values(["split", "path"], ignore_index=True)[
        ["path", "label", "split", "index", "domain"]
    ]


def breeds(seed: int) -> list[str]:
    """The wnids of 25 breeds: the label groups, and others so that WordNet distances are 2..8."""
    wanted = set(range(2, FARTHEST + 1))
    for trial in range(TRIALS):
        chosen = [wnid for group in LABEL_GROUPS for wnid in group]
        for wnid in sorted(wnids()[DOGS], key=lambda wnid, trial=trial: _lot(f"{trial}/{wnid}", seed)):
            if len(chosen) == DOMAINS["dogs"].classes:
                break
            if wnid not in chosen and distances([*chosen, wnid]).max() <= FARTHEST:
                chosen.append(wnid)
        if set(distances(chosen).ravel().tolist()) - {0} == wanted:
            return sorted(chosen)
    raise ManifestError(
        f"seed {seed} draws no 25 breeds with WordNet distances 2..{FARTHEST} in {TRIALS} trials"
    )


def placed(
    manifest: pd.DataFrame,  # whose paths need to be right in their last two parts only
    source: Source,
) -> pd.DataFrame:  # with the paths of the source
    """A manifest that was written elsewhere, for the place where someone's copy of the dataset lies.

    Raises:
        ManifestError: if a picture is not there, or the dataset calls its class another name.
    """
    there = dict(zip(source.table["path"].map(key), source.table["path"], strict=True))
    keys = manifest["path"].map(key)
    if missing := sorted(set(keys) - set(there)):
        raise ManifestError(
            f"{len(missing)} of {len(keys)} pictures are not in {source.root}, {missing[0]} the first"
        )
    found = manifest.assign(path=keys.map(there))
    labels = found["path"].map(dict(zip(source.table["path"], source.table["label"], strict=True)))
    if (other := labels != found["label"]).any():
        path = found["path"][other].iloc[0]
        raise ManifestError(
            f"{path} is of class {labels[other].iloc[0]}, the manifest has {found['label'][other].iloc[0]}"
        )
    return found


def key(path: str) -> str:
    """What identifies a picture of a dataset wherever that lies: folder and file."""
    return "/".join(path.split("/")[-2:])


def check_disjoint(manifest: pd.DataFrame, pictures: Pictures) -> None:
    """Opens every picture: none may be in the manifest twice, under whatever name.

    Raises:
        ManifestError: naming two that are the same.
        PictureError: for a picture that cannot be read.
    """
    seen: dict[str, str] = {}
    for path in manifest["path"]:
        first = seen.setdefault(pictures.sha256(path), path)
        if first != path:
            raise ManifestError(
                f"{path} is the same picture as {first}; one of the two must leave the manifest"
            )


def write_manifest(
    manifest: pd.DataFrame,
    path: Path,
    *,
    seed: int,
    domain: Domain | None = None,  # how it was drawn
    own: bool = True,  # false for an author's manifest
) -> str:
    """Writes a manifest once, with how it was drawn beside it; returns its hash.

    Raises:
        ManifestError: if another manifest is there already: studies stand on it.
    """
    text = manifest.to_csv(index=False, lineterminator="\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    if path.is_file() and path.read_text(encoding="utf-8") != text:
        raise ManifestError(
            f"{path} exists and differs from what seed {seed} draws; keep it, or remove it first"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    drawn = asdict(domain) if domain and own else None
    told = {"own split": own, "seed": seed if own else None, "sha256": digest, "drawn": drawn}
    path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return digest


def _classes(
    name: str, domain: Domain, source: Source, pools: dict[str, pd.DataFrame], seed: int
) -> list[str]:  # labels
    if name == "dogs":
        named = dict(zip(wnids(), source.classes, strict=True))
        return [named[wnid] for wnid in breeds(seed)]
    aside = domain.per_heldout + domain.per_validation
    shared = set(domain.train) & set(domain.heldout)
    least = domain.per_train + (aside if shared else 0)
    fits = _with_enough(pools["train"], dict.fromkeys(source.table["label"]), least)
    fits = fits if shared else _with_enough(pools["heldout"], fits, aside)
    if len(fits) < domain.classes:
        pool = " and ".join(domain.train)
        raise ManifestError(
            f"{name}: {len(fits)} classes have {least} pictures in {pool} (and {aside} aside), {domain.classes} asked"
        )
    return sorted(_ordered(fits, seed)[: domain.classes])


def _with_enough(pool: pd.DataFrame, labels: Iterable[str], least: int) -> list[str]:
    counts = pool["label"].value_counts()
    return [label for label in labels if counts.get(label, 0) >= least]


def _deal(
    pool: pd.DataFrame, labels: Collection[str], uses: dict[str, int], seed: int, parts: tuple[str, ...]
) -> pd.DataFrame:
    """So many pictures of each class for each use, none twice."""
    asked, dealt = sum(uses.values()), []
    for label in labels:
        paths = sorted(pool["path"][pool["label"] == label], key=lambda path: _lot(key(path), seed))
        if len(paths) < asked:
            raise ManifestError(
                f"class {label} has {len(paths)} images in {' and '.join(parts)}, {asked} asked"
            )
        start = 0
        for use, count in uses.items():
            dealt += [(path, label, use) for path in sorted(paths[start : start + count])]
            start += count
    rows = pd.DataFrame(dealt, columns=["path", "label", "split"])
    index = dict(zip(pool["label"], pool["index"], strict=True))
    return rows.assign(index=rows["label"].map(index).astype(int))


def _ordered(names: Iterable[str], seed: int) -> list[str]:
    """Names in an order that looks random and depends on each name and the seed alone."""
    return sorted(names, key=lambda name: _lot(name, seed))


def in_lots(paths: pd.Series, seed: int) -> pd.Series:
    """The place of every path in an order that looks random and depends on the seed and its last two parts."""
    return paths.map(lambda path: _lot(key(path), seed)).rank(method="first") - 1


def _lot(name: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()


def _canines() -> set[int]:
    everything = range(len(wnids()))
    return {*everything[DOGS], *everything[WILD]}
