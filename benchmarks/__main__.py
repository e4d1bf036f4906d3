"""Every comparison, in one process: `python -m benchmarks [--only NAME ...] [--out FILE]`, or `make bench`.

Prints a table of ways and a table of growth, and writes both as JSON. ``times`` says how many times as long as ours a
way takes; only such ratios mean anything on another machine. `python -m benchmarks.judging` and
`python -m benchmarks.gpu` stand alone.
"""

import argparse
import json
import platform
from pathlib import Path

import torch

from benchmarks import steps
from benchmarks.curves import curves
from benchmarks.embedding import embedding
from benchmarks.kernels import kernels
from benchmarks.measure import shown
from benchmarks.projecting import projection
from benchmarks.retrieving import mean_average_precision

COMPARISONS = {
    "step": steps.training_step,
    "miniature": steps.miniature_step,
    "bank": steps.text_bank,
    "retrieval": mean_average_precision,
    "projection": projection,
    "embedding": embedding,
    "kernels": kernels,
}


def main() -> None:
    """Runs what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ours against plain ways.")
    parser.add_argument("--only", nargs="+", choices=[*COMPARISONS, "curves"], help="some of the comparisons")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"))
    given = parser.parse_args()
    wanted = given.only or [*COMPARISONS, "curves"]
    machine = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processor": platform.machine(),
    }
    rows, told = [], {}
    for name in [name for name in COMPARISONS if name in wanted]:
        found = COMPARISONS[name]()
        found, beside = found if isinstance(found, tuple) else (found, {})
        print(shown(found), *(f"{key}: {value:.3g}" for key, value in beside.items()), sep="\n", end="\n\n")
        rows += found
        told |= {name: beside} if beside else {}
    grown = curves() if "curves" in wanted else []
    if grown:
        print(shown(grown))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine, "ways": rows, "beside": told, "growth": grown}
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {given.out}")


if __name__ == "__main__":
    main()
