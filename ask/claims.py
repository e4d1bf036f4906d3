"""What the miniature must show, as the paper does at full size: each claim with its figures and pass or fail.

In reading order: `Claim`, `claims` (from the numbers of the arms to a table), `as_markdown`.
"""

import operator
from dataclasses import dataclass

import pandas as pd

from ask.published import published

_HOLDS = {"≥": operator.ge, "≤": operator.le}
_PAPER_ARGMAX = {"fidelity": 0.760 - 0.794, "map": 59.69 - 60.16}  # Figure 7, argmax minus expected digit


@dataclass(frozen=True)
class Claim:
    """One sentence that a number decides."""

    text: str
    paper: float  # the paper's figure for the same quantity
    measured: float
    sign: str  # ≥ or ≤
    line: float

    @property
    def holds(self) -> bool:
        """Whether the measured figure is on the right side of the line, the line included."""
        return bool(_HOLDS[self.sign](self.measured, self.line))


def claims(
    arms: pd.DataFrame,  # arm x (fidelity, map, zero_shot): fidelity in [-1, 1], the others in per cent
    criteria: pd.DataFrame,  # student x criterion: fidelity; both named alike
) -> pd.DataFrame:  # claim, paper, measured, needed, holds
    """Every claim on one table of arms (means over seeds where there are several).

    Raises:
        KeyError: if an arm that a claim needs is missing.
    """
    gain = arms - arms.loc["untrained"]
    over_ask = arms - arms.loc["ask"]
    own = [name for name in criteria.columns if name != "breed"]
    led = sum(criteria[name].idxmax() == name for name in own)
    paper = {
        row: {c: published("1", f"Dogs / {row}", c) for c in ("Fid.", "mAP", "ZS")}
        for row in ("ASK (ours)", "Untrained CLIP")
    }
    ask, clip = paper["ASK (ours)"], paper["Untrained CLIP"]
    anchors = {
        row: published("5", row, column, "e") for row, column in (("None", "ZS"), ("Feature L2", "mAP"))
    }
    psd = published("18", "Gemma 4 12B / Dogs / breed", "mAP / PSD")
    raw = published("18", "Gemma 4 12B / Dogs / breed", "mAP / raw")
    shuffled = published("4", "Shuffled (neg.)", "Breed", "b")
    found = [
        Claim("ASK raises unseen-class mAP", ask["mAP"] - clip["mAP"], gain.loc["ask", "map"], "≥", 20),
        Claim("ASK's fidelity to the judge", ask["Fid."], arms.loc["ask", "fidelity"], "≥", 0.50),
        Claim("ASK raises fidelity", ask["Fid."] - clip["Fid."], gain.loc["ask", "fidelity"], "≥", 0.30),
        Claim(
            "zero-shot is kept with the anchor", ask["ZS"] - clip["ZS"], gain.loc["ask", "zero_shot"], "≥", -2
        ),
        Claim(
            "zero-shot is lost without it",
            anchors["None"] - clip["ZS"],
            gain.loc["no-anchor", "zero_shot"],
            "≤",
            -10,
        ),
        Claim(
            "shuffled scores: share of ASK's mAP gain",
            (published("2", "ViT-B/16 / Shuffled teacher", "mAP") - clip["mAP"]) / (ask["mAP"] - clip["mAP"]),
            gain.loc["shuffled", "map"] / gain.loc["ask", "map"],
            "≤",
            0.25,
        ),
        Claim("shuffled scores: fidelity gained", shuffled, gain.loc["shuffled", "fidelity"], "≤", 0.05),
        Claim(
            "a feature-L2 anchor pins mAP (distance from untrained)",
            abs(anchors["Feature L2"] - clip["mAP"]),
            abs(gain.loc["feature-l2", "map"]),
            "≤",
            1.5,
        ),
        Claim(
            "projected minus raw mAP, indefinite judge",
            psd - raw,
            arms.loc["wavering-psd", "map"] - arms.loc["wavering-raw", "map"],
            "≥",
            -0.5,
        ),
        Claim(
            "argmax minus expected digit: mAP", _PAPER_ARGMAX["map"], over_ask.loc["argmax", "map"], "≤", 0.5
        ),
        Claim(
            "argmax minus expected digit: fidelity",
            _PAPER_ARGMAX["fidelity"],
            over_ask.loc["argmax", "fidelity"],
            "≤",
            0.01,
        ),
        Claim("criteria whose own student leads their column", 4, led, "≥", 4),
    ]
    return pd.DataFrame(
        {
            "claim": [claim.text for claim in found],
            "paper": [claim.paper for claim in found],
            "measured": [claim.measured for claim in found],
            "needed": [f"{claim.sign} {claim.line:g}" for claim in found],
            "holds": [claim.holds for claim in found],
        }
    )


def as_markdown(table: pd.DataFrame, seeds: int) -> str:
    """The table as the README shows it, with what it was measured on."""
    plural = "seed" if seeds == 1 else "seeds"
    lines = [
        f"*Miniature world, simulated judge; mean of {seeds} {plural}. mAP and zero-shot in points.*",
        "",
        "| claim | paper | measured | needed | |",
        "|---|---:|---:|---:|---|",
    ]
    for row in table.itertuples():
        verdict = "holds" if row.holds else "**fails**"
        lines.append(f"| {row.claim} | {row.paper:.3g} | {row.measured:.3g} | {row.needed} | {verdict} |")
    return "\n".join(lines) + "\n"
