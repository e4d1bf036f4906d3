"""CLIP weights on disk: which they are, what they were trained with, and the compact file of a small student.

In reading order: `fingerprint` tells two sets of weights apart; `activation` and `require_activation` keep
GELU and QuickGELU from being confused; `save_student` and `load_weights` write and read safetensors, the only
format that is read from a path, since it holds numbers and can run no code.

A student's captions use a few hundred of its tokenizer's 49,408 words, so its file holds only those rows of
the token table, in half precision; every other row is loaded as zeros.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from open_clip.transformer import QuickGELU
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

TOKEN_TABLE = "token_embedding.weight"


class ActivationError(ValueError):
    """Weights and model disagree about GELU and QuickGELU: the model would run, and be wrong."""


def fingerprint(weights: nn.Module | Mapping[str, Tensor]) -> str:
    """sha256 over the sorted names, dtypes, shapes and bytes of a state dict, or of a module's state dict."""
    state = weights.state_dict() if isinstance(weights, nn.Module) else weights
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def activation(model: nn.Module) -> str:
    """What `model` computes with: "gelu" or "quickgelu"."""
    return "quickgelu" if any(isinstance(module, QuickGELU) for module in model.modules()) else "gelu"


def require_activation(computed: str, trained: str | None, *, weights: str, model_name: str) -> None:
    """Refuse weights that were trained with another activation than their model computes.

    open_clip only warns when a tag does not match, and says nothing when the same weights come from a file.

    Args:
        computed: the model's, "gelu" or "quickgelu".
        trained: the weights', or None if nothing tells.
        weights: a tag or file, for the error.
        model_name: an architecture of open_clip, or the JSON file of one; the error names the right one.

    Raises:
        ActivationError: on a mismatch, or if nothing tells.
    """
    if trained is None:
        raise ActivationError(
            f"{weights} does not say which activation it was trained with; add activation: gelu or quickgelu"
        )
    if trained != computed:
        plain = model_name.removesuffix("-quickgelu")
        remedy = f"use the architecture {plain}{'-quickgelu' if trained == 'quickgelu' else ''}"
        if model_name.endswith(".json"):
            remedy = f"set quick_gelu to {'true' if trained == 'quickgelu' else 'false'} there"
        raise ActivationError(
            f"{weights} was trained with {trained}, but {model_name} computes {computed}; {remedy}"
        )


def save_student(model: nn.Module, path: Path | str, token_ids: Iterable[int]) -> None:
    """Write `model` with the token rows `token_ids`; equal weights give equal bytes.

    Matrices are stored in float16, scalars such as the logit scale in float32. The activation is recorded.

    Raises:
        ValueError: if a weight is not finite in float16.
    """
    state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    ids = torch.tensor(sorted({int(token) for token in token_ids}), dtype=torch.int32)
    state["token_rows"] = state.pop(TOKEN_TABLE)[ids.long()]
    state = {
        name: (value.half() if value.ndim else value.float()).contiguous() for name, value in state.items()
    }
    if broken := [name for name, value in state.items() if not value.isfinite().all()]:
        raise ValueError(
            f"weights must be finite in float16, but {broken[0]} is not; the training has diverged"
        )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(save(state | {"token_ids": ids}, metadata={"activation": activation(model)}))


def load_weights(model: nn.Module, path: Path | str) -> None:
    """Load a safetensors file, a student's or a whole CLIP's, into `model`; all names and shapes must match.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no safetensors file or does not fit the model.
    """
    stored_activation(path)
    state = load_file(path)
    if "token_ids" in state:
        rows, ids = state.pop("token_rows"), state.pop("token_ids").long()
        state[TOKEN_TABLE] = rows.new_zeros(model.vocab_size, rows.shape[-1]).index_copy(0, ids, rows)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit its model: {' '.join(str(error).split())}") from error


def stored_activation(path: Path | str) -> str | None:
    """The activation that a safetensors file says it was trained with, if it says so.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no safetensors file.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is missing; run `dvc pull data.dvc`, or name weights that you have")
    try:
        with safe_open(path, framework="pt") as file:
            return (file.metadata() or {}).get("activation")
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a safetensors file, but is none ({error}); convert it first"
        ) from error
