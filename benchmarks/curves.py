"""How time grows: with images retrieved, groups projected, prompts of the text bank, judgments stored."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from pathlib import Path

from ask import clip
from ask.datasets.manifest import read_manifest
from ask.elicitation import elicit, export
from ask.embedding import embed_texts
from ask.evaluation import retrieval
from ask.journal import publish, read_snapshot
from ask.judges import Computed, Pair, Reply
from ask.kernels import target_kernel
from benchmarks.floor import imagenet_prompts
from benchmarks.projecting import groups_of
from benchmarks.retrieving import features_of

IMAGES = (1_000, 5_000, 20_000, 50_000)
GROUPS = (10, 93, 300, 1_000)
PROMPTS = (100, 300, 1_000)
ROWS = (1_000, 10_000, 50_000)
JUDGMENTS = (1_000, 10_000, 100_000)


class Instant(Computed):
    """A judge that answers at once, so that only keeping the answers takes time."""

    batch_size = 1_000

    def __init__(self):
        self.identity = {"kind": "instant", "name": "instant", "criterion": "none"}

    def answer(self, pairs: Sequence[Pair]) -> list[Reply]:
        """The same digit for every pair."""
        return [Reply({"5": 0.9, "6": 0.1}, "5", "here") for _ in pairs]


def curve(what: str, sizes: Sequence[int], prepare: Callable[[int], Callable[[], object]]) -> list[dict]:
    """A row per size; ``growth`` is the exponent between a size and the one before."""
    rows: list[dict] = []
    for size in sizes:
        run = prepare(size)
        began = time.perf_counter()
        run()
        row = {"what": what, "size": size, "seconds": time.perf_counter() - began}
        if rows:
            before = rows[-1]
            row["growth"] = log(row["seconds"] / before["seconds"]) / log(size / before["size"])
        rows.append(row)
    return rows


def curves(most: int = 100_000) -> list[dict]:
    """All curves, without sizes above `most`."""

    def few(sizes: Sequence[int]) -> list[int]:
        return [size for size in sizes if size <= most]

    base = clip.load_backbone("vit-b-32", {"arch": "ViT-B-32-quickgelu", "random": 0})
    prompts = imagenet_prompts()
    rows = curve("retrieval, images", few(IMAGES), lambda n: partial(retrieval, *features_of(n)))
    rows += curve("PSD projection, groups", few(GROUPS), lambda g: partial(target_kernel, groups_of(g)))
    rows += curve(
        "text bank of ViT-B/32, prompts", few(PROMPTS), lambda m: partial(embed_texts, base, prompts[:m])
    )
    with tempfile.TemporaryDirectory() as folder:
        rows += curve(
            "manifest, rows", few(ROWS), lambda n: partial(read_manifest, _manifest(Path(folder), n))
        )
        rows += _store(Path(folder), few(JUDGMENTS))
    return rows


def _manifest(folder: Path, count: int) -> Path:
    path = folder / f"{count}.csv"
    lines = (f"class{row % 100}/{row}.jpg,class {row % 100},train,any\n" for row in range(count))
    path.write_text("path,label,split,domain\n" + "".join(lines))
    return path


def _store(folder: Path, sizes: Sequence[int]) -> list[dict]:
    judge = Instant()

    def pairs(count: int) -> list[Pair]:
        return [Pair(f"{row:064x}", f"{row + 1:064x}", row, row + 1) for row in range(count)]

    def asked(count: int) -> Callable[[], object]:
        given = pairs(count)
        return lambda: elicit(judge, given, store=folder / str(count))

    def exported(count: int) -> Callable[[], object]:
        found = elicit(judge, pairs(count), store=folder / str(count))
        return lambda: export(found, folder / f"{count}-out")

    def published(count: int) -> Callable[[], object]:
        return lambda: publish(folder / str(count), folder / f"{count}-shown")

    def read(count: int) -> Callable[[], object]:
        return lambda: read_snapshot(folder / f"{count}-shown", judge.identity)

    steps = {
        "judgments, kept as they come": asked,
        "judgments, loaded from the store": asked,
        "judgments, exported": exported,
        "judgments, published": published,
        "judgments, loaded from a snapshot": read,
    }
    return [row for what, prepare in steps.items() for row in curve(what, sizes, prepare)]
