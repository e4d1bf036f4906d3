"""How long ways of doing one thing take, side by side in one process.

Ways are run in turn, so that whatever else the machine does falls on all of them; of each the median counts. In
reading order: `Seconds`, `Measured`, `interleaved`, `matmul_rate`, `table`, `shown`.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

TURN = 0.2  # seconds that a way's turn takes at least


class Seconds(float):
    """What a way returns that knows better than its caller how long it took."""


@dataclass(frozen=True)
class Measured:
    """One way of doing something."""

    seconds: float  # median of the repeats
    spread: float  # (slowest - fastest) / median
    megabytes: float | None  # most that it needed above what was there before; None where nobody counts


def interleaved(
    ways: Mapping[str, Callable[[], object]],  # one may return the `Seconds` that count, instead of all
    repeats: int = 3,
    device: torch.device | str = "cpu",
) -> dict[str, Measured]:
    """Runs every way once to warm up, then all of them in turn; a short one is run many times in its turn."""
    device = torch.device(device)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    memory: dict[str, float | None] = {}
    often = dict.fromkeys(ways, 1)
    for turn in range(repeats + 1):
        for name, way in ways.items():
            before = _forget_peak(device) if turn == 1 else None
            if often[name] > 1:
                way()  # what ran before may still keep threads and caches busy
            calls = []
            for _ in range(often[name]):
                began = time.perf_counter()
                told = way()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                calls.append(told if isinstance(told, Seconds) else time.perf_counter() - began)
            seconds = statistics.median(calls)
            if turn:
                taken[name].append(seconds)
                memory[name] = _peak_since(before, device) if turn == 1 else memory[name]
            elif not isinstance(told, Seconds):
                often[name] = max(1, int(TURN / seconds))
    return {
        name: Measured(
            statistics.median(seconds),
            (max(seconds) - min(seconds)) / statistics.median(seconds),
            memory[name],
        )
        for name, seconds in taken.items()
    }


def matmul_rate(
    rows: int,
    width: int,
    columns: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> float:  # floating-point operations per second
    """What the machine reaches in plain matrix products of one shape, the best of many."""
    left, right = (
        torch.randn(shape, device=device, dtype=dtype) for shape in ((rows, width), (width, columns))
    )
    repeats = max(8, int(2e10 / (2 * rows * width * columns)))
    best = 0.0
    for _ in range(5):
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(repeats):
            left @ right
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        best = max(best, repeats * 2 * rows * width * columns / (time.perf_counter() - began))
    return best


def table(title: str, found: Mapping[str, Measured], ours: str = "ours") -> list[dict]:
    """A row per way, with how many times as long as ours it takes."""
    return [
        {
            "what": title,
            "way": name,
            "seconds": one.seconds,
            "times": one.seconds / found[ours].seconds,
            "spread": one.spread,
            "MB": one.megabytes,
        }
        for name, one in found.items()
    ]


def shown(rows: Sequence[dict]) -> str:
    """Rows as a text table."""
    frame = pd.DataFrame(rows)
    digits = {"seconds": "{:.4g}", "times": "{:.2f}", "spread": "{:.0%}", "MB": "{:.0f}"}
    formats = {
        name: (lambda value, f=f: "" if pd.isna(value) else f.format(value)) for name, f in digits.items()
    }
    return frame.to_string(index=False, formatters={k: v for k, v in formats.items() if k in frame})


def _forget_peak(device: torch.device) -> float | None:  # megabytes in use now
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 1e6
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what earlier ways freed goes back to the system
        Path("/proc/self/clear_refs").write_text("5")  # and the high-water mark begins anew
    except (AttributeError, OSError, TypeError):  # not Linux
        return None
    return _resident("VmRSS")


def _peak_since(before: float | None, device: torch.device) -> float | None:
    if before is None:
        return None
    peak = torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else _resident("VmHWM")
    return max(0.0, peak - before)


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1e3
