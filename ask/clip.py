"""CLIP backbones: a model with the preprocessing, tokenizer and activation that belong to its weights.

In reading order: `load_backbone` builds one `Backbone`; `tokenize` prepares its texts; `normalized` and `logits`
compare features; `frozen_reference` keeps what a student started from. Features are made in `ask/towers.py`,
files of weights are the subject of `ask/weights.py`.

Features are un-normalised: the polynomial kernel needs their length. `normalized` makes cosines of them.

References:
    Radford et al. 2021, "Learning transferable visual models from natural language supervision".
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import open_clip
import torch
from open_clip.model import set_model_preprocess_cfg
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from torch import Tensor, nn

from ask import params
from ask.paths import root
from ask.weights import activation, fingerprint, load_weights, require_activation, stored_activation


class UnknownBackboneError(ValueError):
    """A backbone, architecture or tag of pretrained weights that is in no catalogue."""


@dataclass(frozen=True)
class Backbone:
    """A CLIP model, in evaluation mode, and everything that must never be mismatched with it."""

    name: str
    model: nn.Module
    preprocess: Callable  # PIL image -> (3, h, w) float32
    tokenizer: Callable  # open_clip's; `tokenize` refuses what it would cut
    activation: str  # "gelu" or "quickgelu"
    fingerprint: str  # sha256 of the weights
    weights: str  # where they came from: a file, a tag of open_clip, or "random:<seed>"


def load_backbone(name: str, entry: Mapping[str, Any] | None = None, device: str = "cpu") -> Backbone:
    """The backbone `name`, built without touching the caller's random state.

    An entry has ``config`` (a JSON model config) or ``arch`` (an architecture of open_clip). Its weights are

    - ``weights``: a safetensors file; if it does not say which activation it was trained with, the entry must
      have ``activation``: gelu or quickgelu, or ``pretrained``: the tag whose weights the file holds;
    - else ``pretrained``: a tag of open_clip, fetched by it;
    - else ``random``: a seed. A model without weights is never made by accident.

    Paths start at the project's root. Pixels are prepared as the tag or the config file says, else as for
    OpenAI's CLIP.

    Args:
        name: a name in the `backbones` catalogue of params.yaml; any name when `entry` is given.
        entry: replaces the catalogue's.
        device: where the model goes.

    Raises:
        UnknownBackboneError: if the name, architecture or tag is not known; the known ones are listed.
        ActivationError: if the weights were trained with the other activation.
        FileNotFoundError: if a file is missing.
        ValueError: if the entry names no weights, or a file does not fit the model.
    """
    entry = _catalogued(name) if entry is None else entry
    source, config = _read_config(name, entry)
    file, tag, seed = entry.get("weights"), entry.get("pretrained"), entry.get("random")
    pretrained = _read_tag(source, tag) if tag else {}
    if file is None and tag is None and seed is None:
        raise ValueError(
            f"backbone {name!r} has neither weights nor pretrained and would be random; name its weights, or "
            "ask for a random model with random: <seed>"
        )
    if file or tag:
        told = _activation_of(pretrained) if tag else entry.get("activation")
        trained, computed = told or stored_activation(root() / file), _activation_of(config["model_cfg"])
        require_activation(computed, trained, weights=str(file or tag), model_name=source)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed or 0)
        model = _build(config, pretrained).eval()
    if file:
        load_weights(model, root() / file)
    elif tag:
        open_clip.load_checkpoint(model, open_clip.download_pretrained(pretrained))
    return Backbone(
        name=name,
        model=model.to(device),
        preprocess=image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False),
        tokenizer=open_clip.get_tokenizer(entry.get("arch", ""), context_length=model.context_length),
        activation=activation(model),
        fingerprint=fingerprint(model),
        weights=str(file or tag or f"random:{seed}"),
    )


def normalized(
    features: Tensor,  # (..., d)
) -> Tensor:  # (..., d)
    """Features divided by their Euclidean length."""
    return nn.functional.normalize(features, dim=-1)


def logits(
    image_features: Tensor,  # (n, d), normalised here
    text_features: Tensor,  # (m, d), normalised here
    logit_scale: Tensor,  # () the *log* of the scale, as CLIP stores it: 4.6052 for 100
) -> Tensor:  # (n, m)
    """exp(logit_scale) · cos(image, text), in float32 at least, under autocast too."""
    wide = torch.promote_types(image_features.dtype, torch.float32)
    with torch.autocast(image_features.device.type, enabled=False):
        cosines = normalized(image_features.to(wide)) @ normalized(text_features.to(wide)).mT
        return logit_scale.exp() * cosines


def tokenize(backbone: Backbone, texts: Sequence[str]) -> Tensor:  # (m, L) int64
    """Token ids of `texts` in the model's context; nothing is cut, and no word is unknown to the model.

    Raises:
        ValueError: if a text is longer than the context, or a small student has no embedding of its words.
    """
    context = backbone.model.context_length
    tokens = backbone.tokenizer(
        list(texts), context_length=context + 1
    )  # one more column shows what would be cut
    padding = getattr(getattr(backbone.tokenizer, "tokenizer", None), "pad_token_id", 0)
    for row in (tokens[:, context] != padding).nonzero()[:1, 0].tolist():
        raise ValueError(f"texts must fit {context} tokens, but text {row} does not; shorten {texts[row]!r}")
    tokens = tokens[:, :context]
    table = getattr(getattr(backbone.model, "text", backbone.model), "token_embedding", None)
    if table is not None:
        _require_embeddings(backbone, texts, tokens, table.weight.detach())
    return tokens


def frozen_reference(model: nn.Module) -> nn.Module:
    """An independent copy of `model` in evaluation mode, without gradients."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def _catalogued(name: str) -> dict:
    known = params.load().get("backbones", {})
    if name not in known:
        raise UnknownBackboneError(
            f"backbone {name!r} is unknown; params.yaml lists {', '.join(sorted(known))}"
        )
    return params.get(f"backbones.{name}", dict)


def _read_config(name: str, entry: Mapping) -> tuple[str, dict]:
    """What describes a model, and the description as open_clip writes it: model_cfg, maybe preprocess_cfg."""
    if ("config" in entry) == ("arch" in entry):
        raise ValueError(
            f"backbone {name!r} must have either config or arch, but its entry has {sorted(entry)}"
        )
    if "config" in entry:
        config = json.loads((root() / entry["config"]).read_text(encoding="utf-8"))
        return entry["config"], config if "model_cfg" in config else {"model_cfg": config}
    config = open_clip.get_model_config(entry["arch"])
    if config is None:
        known = ", ".join(open_clip.list_models())
        raise UnknownBackboneError(f"architecture {entry['arch']!r} is unknown; open_clip has {known}")
    return entry["arch"], {"model_cfg": config}


def _read_tag(arch: str, tag: str) -> dict:
    """What open_clip knows of pretrained weights: where they lie, their activation and preprocessing."""
    plain = arch.removesuffix("-quickgelu")
    found = open_clip.get_pretrained_cfg(arch, tag) or open_clip.get_pretrained_cfg(plain, tag)
    if not found:
        known = ", ".join(open_clip.list_pretrained_tags_by_model(plain)) or "none"
        raise UnknownBackboneError(f"pretrained weights {tag!r} of {arch} are unknown; open_clip has {known}")
    return found


def _activation_of(settings: Mapping) -> str:
    return "quickgelu" if settings.get("quick_gelu") else "gelu"


def _build(config: Mapping, pretrained: Mapping) -> nn.Module:
    settings = copy.deepcopy(config["model_cfg"])
    kind = open_clip.CustomTextCLIP if settings.pop("custom_text", False) else open_clip.CLIP
    model = kind(**settings)
    pixels = merge_preprocess_dict(PreprocessCfg(), pretrained or config.get("preprocess_cfg", {}))
    set_model_preprocess_cfg(model, pixels | {"size": model.visual.image_size})
    return model


def _require_embeddings(backbone: Backbone, texts: Sequence[str], tokens: Tensor, table: Tensor) -> None:
    """Refuse a word whose row of the token table is zero: a small student never met it."""
    used = torch.arange(tokens.shape[1]) <= tokens.argmax(dim=-1, keepdim=True)  # (m, L) up to the end token
    unknown = used & ~table.any(dim=-1).cpu()[tokens]
    for row, column in unknown.nonzero()[:1].tolist():
        word = backbone.tokenizer.decode([int(tokens[row, column])]).strip()
        raise ValueError(
            f"{backbone.name} has no embedding of {word!r}, a part of {texts[row]!r}; use its own words"
        )
