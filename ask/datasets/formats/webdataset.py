"""The copies of benchmarks that CLIP_benchmark publishes: tar shards with a picture and its class per sample.

``test/nshards.txt``, ``test/<n>.tar`` with ``s0000000.webp`` and ``s0000000.cls`` in either order, and the names and
templates beside them. They are the faithful input for VTAB's test parts. A picture's path is its shard and its name.
"""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from PIL import Image

from ask.datasets.pictures import prepare
from ask.datasets.source import LayoutError, Source, below, locate

NAME = "webdataset"
SUFFIXES = (".webp", ".png", ".jpg", ".jpeg")
COPY = "wds_"  # how the folder of a copy is called


def read(root: Path, part: str = "test") -> Source:
    """Reads the classes of all shards; pictures are passed over."""
    count = locate(NAME, root, f"{part}/nshards.txt")
    home = count.parent.parent
    classes = tuple(lines(home / "classnames.txt"))
    shards = [count.parent / f"{n}.tar" for n in range(int(count.read_text(encoding="ascii")))]
    if missing := [shard for shard in shards if not shard.is_file()]:
        raise LayoutError(f"{NAME}: {missing[0]} is missing of {len(shards)} shards; fetch it again")
    table = pd.concat([_shard(root, shard, len(classes)) for shard in shards], ignore_index=True)
    table = table.assign(label=table["index"].map(dict(enumerate(classes))), part=part)
    return Source(home.name, root, table, classes)


def templates(root: Path) -> tuple[str, ...]:
    """The prompts that come with a copy, ``{c}`` standing for the class."""
    return tuple(lines(locate(NAME, root, "zeroshot_classification_templates.txt")))


def lines(file: Path) -> list[str]:
    """The lines of a text file, none of which may be empty."""
    if not file.is_file():
        raise LayoutError(f"{NAME}: {file} is missing; fetch the copy again")
    found = [line.strip() for line in file.read_text(encoding="utf-8").rstrip().split("\n")]
    if "" in found:
        raise LayoutError(f"{NAME}: line {found.index('') + 1} of {file} is empty; fetch the copy again")
    return found


def opened(shard: Path) -> Callable[[str], Image.Image]:
    """What gives the pictures of a shard by their name."""
    with tarfile.open(shard) as told:
        places = {member.name: (member.offset_data, member.size) for member in told if member.isfile()}

    def load(name: str) -> Image.Image:
        start, size = places[name]
        with shard.open("rb") as file:
            file.seek(start)
            return prepare(file.read(size), f"{name} of {shard.name}")

    return load


def _shard(root: Path, shard: Path, classes: int) -> pd.DataFrame:
    index, pictures = {}, {}
    with tarfile.open(shard) as told:
        for member in told:
            stem, suffix = Path(member.name).stem, Path(member.name).suffix
            if suffix == ".cls":
                index[stem] = int(told.extractfile(member).read())
            elif suffix in SUFFIXES:
                pictures[stem] = member.name
    if alone := sorted(set(index) ^ set(pictures)):
        raise LayoutError(
            f"{NAME}: sample {alone[0]} of {shard} lacks its picture or its class; fetch it again"
        )
    if strays := [stem for stem, n in index.items() if not 0 <= n < classes]:
        raise LayoutError(
            f"{NAME}: sample {strays[0]} of {shard} is of class {index[strays[0]]} of {classes}"
        )
    home = below(root, shard)
    rows = [(f"{home}/{pictures[stem]}", index[stem]) for stem in sorted(pictures)]
    return pd.DataFrame(rows, columns=["path", "index"])
