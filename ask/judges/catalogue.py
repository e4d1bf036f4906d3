"""Judges by name: from an entry of ``judges`` in params.yaml to something that can be asked."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ask.datasets.pictures import Pictures
from ask.judges import Judge, JudgeError
from ask.judges.pixel import Pixel
from ask.judges.prompt import general_prompt
from ask.judges.replay import Replay
from ask.judges.simulated import Simulated
from ask.paths import data, root, store


def open_judge(
    name: str,
    entry: Mapping[str, Any],  # its `kind` and settings
    *,
    criterion: str,
    manifest: pd.DataFrame,
    pictures: Pictures,
    seed: int,
    prompt: str | None = None,  # what a model is asked; the criterion in a general form, if not given
    budget: float = 0.0,  # dollars that a hosted judge may take for the criterion
) -> Judge:
    """The judge that the catalogue calls ``name``.

    Raises:
        JudgeError: for an unknown kind (the known ones are listed), or a setting that does not fit.
    """
    paths = manifest["path"].tolist()
    match entry.get("kind"):
        case "simulated":
            return Simulated(name, entry, criterion, manifest, seed=seed)
        case "pixel":
            return Pixel(name, entry, criterion, pictures, paths)
        case "replay":
            if "folder" not in entry:
                raise JudgeError(
                    f"judge {name} replays stored judgments and needs their folder; add it to its entry"
                )
            return Replay(root() / entry["folder"])
        case "hosted":
            from ask.judges.hosted import Hosted  # with all that a network needs, for those who ask over one

            asked, places = (
                prompt or general_prompt(criterion),
                {"store": store(), "published": data("judgments")},
            )
            return Hosted(name, entry, criterion, asked, pictures, paths, **places, budget=budget)
        case "local":
            from ask.judges.local import Local  # with torch and transformers

            return Local(name, entry, criterion, pictures, paths, prompt=prompt or general_prompt(criterion))
        case kind:
            known = "simulated, pixel, replay, hosted, local"
            raise JudgeError(f"judge {name} has the unknown kind {kind!r}; known: {known}")
