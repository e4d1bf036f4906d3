"""Judges by name: from an entry of ``judges`` in params.yaml to something that can be asked."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ask.datasets.pictures import Pictures
from ask.judges import Judge, JudgeError
from ask.judges.pixel import Pixel
from ask.judges.replay import Replay
from ask.judges.simulated import Simulated
from ask.paths import root


def open_judge(
    name: str,
    entry: Mapping[str, Any],  # its `kind` and settings
    *,
    criterion: str,
    manifest: pd.DataFrame,
    pictures: Pictures,
    seed: int,
) -> Judge:
    """The judge that the catalogue calls ``name``.

    Raises:
        JudgeError: for an unknown kind (the known ones are listed), or a setting that does not fit.
    """
    match entry.get("kind"):
        case "simulated":
            return Simulated(name, entry, criterion, manifest, seed=seed)
        case "pixel":
            return Pixel(name, entry, criterion, pictures, manifest["path"].tolist())
        case "replay":
            if "folder" not in entry:
                raise JudgeError(
                    f"judge {name} replays stored judgments and needs their folder; add it to its entry"
                )
            return Replay(root() / entry["folder"])
        case kind:
            raise JudgeError(f"judge {name} has the unknown kind {kind!r}; known: simulated, pixel, replay")
