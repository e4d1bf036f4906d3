"""Path distances between synsets of WordNet 3.0, for targets from its hierarchy (ASK, E.1).

A wnid of ImageNet is "n" and the place of a synset in ``data.noun``. A table of the dogs' synsets and all above them is
shipped (``wordnet_data``, with Princeton's notice); any other noun needs the file itself, which Debian has in
``wordnet-base``.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

Hypernyms = Mapping[str, Sequence[str]]  # wnid -> those right above it


class WordNetError(ValueError):
    """A synset is not in the table, or two have nothing above them in common."""


def dogs() -> Hypernyms:
    """The shipped table: ImageNet's 118 breeds and everything above them."""
    text = (resources.files("ask.datasets") / "wordnet_data" / "dog_hypernyms.tsv").read_text(
        encoding="utf-8"
    )
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {row[0]: row[2].replace(",", " ").split() if len(row) > 2 else [] for row in rows}


def nouns(file: Path | str) -> Hypernyms:
    """All nouns, from WordNet's own ``data.noun``.

    Raises:
        FileNotFoundError: if there is no such file.
        WordNetError: if it is another one.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}; on Debian, install wordnet-base: /usr/share/wordnet/data.noun"
        )
    table = {}
    for line in file.read_text(encoding="latin-1").splitlines():
        if line.startswith("  "):
            continue  # the licence
        words = line.partition(" | ")[0].split()
        try:
            start = 4 + 2 * int(words[3], 16)
            pointers = [words[start + 1 + 4 * n : start + 5 + 4 * n] for n in range(int(words[start]))]
            above = [f"n{place}" for kind, place, part, _ in pointers if kind in ("@", "@i") and part == "n"]
        except (ValueError, IndexError) as error:
            raise WordNetError(f"{file} is not WordNet's data.noun ({error}); give that file") from error
        table[f"n{words[0]}"] = above
    return table


def distances(
    wnids: Sequence[str],  # n
    table: Hypernyms | None = None,  # the shipped one if not given
) -> np.ndarray:  # (n, n) int, edges of the shortest path over a common hypernym
    """Shortest path between synsets, up to something above both and down again (NLTK's ``shortest_path_distance``).

    Raises:
        WordNetError: for a wnid that the table does not have.
    """
    table = dogs() if table is None else table
    above = [_above(wnid, table) for wnid in wnids]
    found = np.zeros((len(wnids), len(wnids)), np.int64)
    for i, first in enumerate(above):
        for j in range(i):
            shared = first.keys() & above[j].keys()
            if not shared:
                raise WordNetError(f"{wnids[i]} and {wnids[j]} have no hypernym in common")
            found[i, j] = found[j, i] = min(first[one] + above[j][one] for one in shared)
    return found


def _above(wnid: str, table: Hypernyms) -> dict[str, int]:
    """Everything above a synset, itself included, and how far."""
    if wnid not in table:
        raise WordNetError(
            f"{wnid} is not among the {len(table)} synsets of the table; read WordNet's data.noun"
        )
    far, queue = {wnid: 0}, deque([wnid])
    while queue:
        one = queue.popleft()
        for other in table[one]:
            if other not in far:
                far[other] = far[one] + 1
                queue.append(other)
    return far
