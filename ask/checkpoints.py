"""Checkpoints: the state of a training between two steps, and which training it belongs to.

In reading order: `identity`, a hash of all that decides the bits of a training; `keep` and `resume` a state under it.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor, nn

from ask.compute import Compute
from ask.kernels import Link
from ask.lora import trainable_parameters
from ask.weights import fingerprint

CODE = (
    *(
        "anchor.py",
        "attention.py",
        "checkpoints.py",
        "clip.py",
        "compute.py",
        "kernels.py",
        "lora.py",
        "losses.py",
    ),
    *("packing.py", "params.py", "paths.py", "towers.py", "train.py", "weights.py"),
)  # files of this package that a step runs


def identity(
    student: nn.Module,  # adapted, trained or not
    reference: nn.Module,
    *,
    pixels: Callable[[np.ndarray], Tensor],
    groups: np.ndarray,
    targets: Tensor,
    link: Link,
    anchor_tokens: Tensor,
    recipe: Any,  # a `train.Recipe`
    compute: Compute = Compute(),  # noqa: B008, it is frozen
    labels: np.ndarray | None = None,
) -> str:
    """A hash of the arguments of `train.train`, pictures, weights and code included; what is trained is not in it."""
    device = reference.logit_scale.device
    told = [asdict(recipe), asdict(link), device.type, compute.towers(device), compute.matmul_precision]
    learning = [tuple(parameter.shape) for parameter in trainable_parameters(student)]
    digest = sha256(json.dumps([*told, fingerprint(reference), learning], sort_keys=True).encode())
    for array in (groups, targets.cpu().numpy(), anchor_tokens.cpu().numpy(), labels):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    for group in groups:
        digest.update(pixels(group).cpu().numpy().tobytes())
    for name in CODE:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()


def keep(
    checkpoint: Path,
    told: str,  # the training's `identity`
    parameters: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    history: list[dict[str, float]],
) -> None:
    """Writes the state after a step; a kill leaves the one before."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    partial = checkpoint.with_suffix(f".{uuid4().hex}.partial")
    state = {
        "identity": told,
        "parameters": parameters,
        "optimizer": optimizer.state_dict(),
        "history": history,
    }
    try:
        torch.save(state, partial)
        partial.replace(checkpoint)
    finally:
        partial.unlink(missing_ok=True)


def resume(
    checkpoint: Path | None,
    told: str,
    parameters: list[nn.Parameter],  # set to the state's
    optimizer: torch.optim.Optimizer,  # likewise
) -> tuple[int, list[dict[str, float]]]:  # steps done, and their records
    """The state of the same training, or of none: a checkpoint of another one is left alone."""
    if checkpoint is None or not checkpoint.is_file():
        return 0, []
    kept = torch.load(checkpoint, weights_only=True, map_location=parameters[0].device)
    if kept["identity"] != told:
        return 0, []
    with torch.no_grad():
        for parameter, value in zip(parameters, kept["parameters"], strict=True):
            parameter.copy_(value)
    optimizer.load_state_dict(kept["optimizer"])
    return len(kept["history"]), kept["history"]
