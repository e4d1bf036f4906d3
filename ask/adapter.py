"""An adapter on disk: `adapter.safetensors` with the factors, and `manifest.json` with what they mean.

An update means nothing on any base but its own, and nothing in the tensors tells: they would load, and
compute something else. So `save_adapter` records the base's fingerprint, activation and preprocessing, and
`load_adapter` refuses any other base. The same adapter gives the same bytes. Only safetensors is read, since
it can run no code.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from ask.clip import Backbone
from ask.lora import ADAPTER, adapt, base_weights, factors
from ask.weights import activation, fingerprint

TOLD = ("base", "link", "judge", "prompt_hash", "data_hashes")  # what only the caller knows
LINK = ("gamma", "c", "p", "residual")
BASE = ("fingerprint", "activation", "preprocessing")  # a base that differs in one of these is another base
RECIPE = ("rank", "alpha", "towers")
PACKAGES = ("torch", "open_clip_torch", "peft", "safetensors")


class WrongBaseError(ValueError):
    """An adapter that belongs to another base than the one it is loaded on."""


def save_adapter(model: nn.Module, folder: Path | str, manifest: Mapping[str, Any]) -> None:
    """Write the factors of an adapted `model` and their manifest into `folder`.

    What can be measured is measured: fingerprint, activation, preprocessing, logit_scale, rank, alpha,
    scaling, towers, parameters, packages, sha256 of the factors. A value of the base or the recipe that is
    given too must agree: ``fingerprint=backbone.fingerprint`` proves that training left the base alone.

    Args:
        model: as `adapt` made it.
        folder: made if it is missing.
        manifest: ``base`` (the backbone's name), ``link`` (gamma, c, p, residual; None for a kernel without
            one), ``judge``, ``prompt_hash``, ``data_hashes``, and anything else worth keeping.

    Raises:
        ValueError: if a key is missing, a given value is not the measured one, or a number is not finite.
    """
    given = json.loads(json.dumps(dict(manifest), allow_nan=False))
    if missing := [key for key in TOLD if key not in given]:
        raise ValueError(
            f"a manifest must have {', '.join(TOLD)}, but {', '.join(missing)} is missing; add it"
        )
    if given["link"] is not None and set(given["link"]) != set(LINK):
        raise ValueError(
            f"a link must have {', '.join(LINK)}, but has {', '.join(given['link'])}; give all four"
        )
    measured = _identity(model) | _recipe(model)
    for key in sorted(measured.keys() & given):
        if given[key] != measured[key]:
            raise ValueError(
                f"{key} is given as {given[key]!r}, but the model has {measured[key]!r}; find out why"
            )
    tensors = {name: factor.detach().cpu().contiguous() for name, factor in factors(model).items()}
    if broken := [name for name, value in tensors.items() if not value.isfinite().all()]:
        raise ValueError(f"factors must be finite, but {broken[0]} is not; the training has diverged")
    content = save(tensors)
    packages = given.get("packages", {}) | {name: version(name) for name in PACKAGES}
    full = given | measured | {"packages": packages, "sha256": hashlib.sha256(content).hexdigest()}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter.safetensors").write_bytes(content)
    text = json.dumps(full, sort_keys=True, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def load_adapter(
    backbone: Backbone,
    folder: Path | str,
    *,
    allow_other_base: bool = False,
) -> tuple[nn.Module, dict[str, Any]]:
    """An adapted copy of the backbone's model, and the manifest; the backbone itself is left alone.

    With `allow_other_base` an adapter of another base of the same shape is loaded all the same. The manifest
    then describes the base in use and keeps the adapter's own as ``trained_on``, through every later save.

    Raises:
        WrongBaseError: if the base has other weights, activation or preprocessing than the adapter's own.
        ValueError: if the files are incomplete, unsafe, changed since they were written, or do not fit.
    """
    manifest, stored = _read(Path(folder))
    own = {key: manifest[key] for key in ("base", *BASE, "logit_scale")}
    here = {"base": backbone.name} | _identity(backbone.model)
    if any(own[key] != here[key] for key in BASE):
        if not allow_other_base:
            raise WrongBaseError(
                f"the adapter was trained on {_described(own)}, but is loaded on {_described(here)}; load "
                "its own base, or pass allow_other_base=True"
            )
        manifest = manifest | here | {"trained_on": manifest.get("trained_on", own)}
    model = copy.deepcopy(backbone.model)
    adapt(model, manifest["rank"], manifest["alpha"], towers=manifest["towers"], seed=0)
    wanted = factors(model)
    for name in sorted(stored.keys() | wanted):
        inside, needed = (tuple(side[name].shape) if name in side else "missing" for side in (stored, wanted))
        if inside != needed:
            raise ValueError(
                f"an adapter must fit its base, but {name} is {inside} in {folder} and {needed} in the "
                "model; use a base of the same architecture"
            )
    for name, factor in wanted.items():
        factor.data.copy_(stored[name])
    return model, manifest


def _identity(model: nn.Module) -> dict[str, Any]:
    """What makes a base the base it is."""
    return {
        "fingerprint": fingerprint(base_weights(model)),
        "activation": activation(model),
        "preprocessing": json.loads(json.dumps(model.visual.preprocess_cfg)),
        "logit_scale": model.logit_scale.item(),
    }


def _recipe(model: nn.Module) -> dict[str, Any]:
    named = factors(model)
    if not named:
        raise ValueError("only an adapted model has an adapter, but this one is plain; call `adapt` first")
    layer = next(layer for layer in model.modules() if isinstance(layer, LoraLayer))
    visual = [name.startswith("visual.") for name in named]
    return {
        "rank": layer.r[ADAPTER],
        "alpha": layer.lora_alpha[ADAPTER],
        "scaling": layer.scaling[ADAPTER],
        "towers": ["visual"] * any(visual) + ["text"] * (not all(visual)),
        "parameters": sum(factor.numel() for factor in named.values()),
    }


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    tensors, manifest = folder / "adapter.safetensors", folder / "manifest.json"
    if not (tensors.is_file() and manifest.is_file()):
        found = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
        raise ValueError(
            f"{folder} must hold {tensors.name} and {manifest.name}, but holds {found}; save it again"
        )
    read, content = json.loads(manifest.read_text(encoding="utf-8")), tensors.read_bytes()
    if lacking := [key for key in (*TOLD, *BASE, *RECIPE, "logit_scale", "sha256") if key not in read]:
        raise ValueError(f"{manifest} must have {', '.join(lacking)}, but has not; save the adapter again")
    if hashlib.sha256(content).hexdigest() != read["sha256"]:
        raise ValueError(
            f"{tensors} must be the file that its manifest describes, but is not; fetch both again"
        )
    try:
        return read, load(content)
    except SafetensorError as error:
        raise ValueError(f"{tensors} must hold safetensors, but does not ({error}); save it again") from error


def _described(base: Mapping[str, Any]) -> str:
    return f"{base['base']} (weights {base['fingerprint'][:16]}, {base['activation']})"
