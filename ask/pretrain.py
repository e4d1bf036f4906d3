"""python -m ask.pretrain: makes the miniature student, a small CLIP pre-trained on captions of ever-new species.

No two pictures share a species except by chance, so the towers cannot memorise names and learn attributes instead.
The loss contrasts whole captions within a batch, as CLIP's does (Radford et al. 2021), and captions of one attribute
with those of its other values, without which a small tower is content with colour and background. Linear heads, thrown
away in the end, read the same attributes off the picture: while neither tower tells two values apart, neither has a
reason to begin. Muon (Jordan et al. 2024) moves the matrices of the transformers and AdamW everything else.

Only the token rows that captions use are trained and stored; every other row of CLIP's table is zero. A run resumes
from the store where it was interrupted.
"""

import json
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import repeat

import numpy as np
import open_clip
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from ask import params, paths
from ask.datasets import factors, render
from ask.weights import save_student

_KEEP_EVERY = 500  # steps between two states in the store
_CHUNK = 500  # pictures rendered from one random stream, so that the result does not depend on the number of processes


@dataclass(frozen=True)
class Pretraining:
    """The recipe: section ``pretraining`` of params.yaml."""

    pictures: int
    steps: int
    batch: int
    captions: int  # pictures of a batch whose whole captions are contrasted
    learning_rate: float  # AdamW's
    muon_rate: float
    weight_decay: float
    warmup: int  # steps
    decay: int  # steps
    hard: float  # final share of the batches whose pictures share colour and background
    easy: int  # steps before the first such batch; their share then grows for as long again
    seed: int


def rendered(n: int, seed: int) -> tuple[pd.DataFrame, Tensor]:  # n rows of factors, (n, 3, h, w) uint8
    """``n`` pictures, each of a random species of its own, drawn by all processors."""
    with ProcessPoolExecutor() as pool:
        chunks = list(tqdm(pool.map(_chunk, range(math.ceil(n / _CHUNK)), repeat(seed)), desc="pictures"))
    frames, pictures = zip(*chunks, strict=True)
    return pd.concat(frames, ignore_index=True)[:n], torch.from_numpy(np.concatenate(pictures))[:n]


def _chunk(index: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng([seed, index])
    frame = factors.species(rng, _CHUNK).join(factors.views(rng, _CHUNK))
    pictures = np.stack([render.picture(row, rng) for row in frame.itertuples()])
    return frame, pictures.transpose(0, 3, 1, 2)


def vocabulary(tokenizer, rows: list, seed: int) -> Tensor:  # (v,) token ids, sorted
    """Every token that captions and species' names use, found by writing many of them."""
    rng = np.random.default_rng([seed, 1])
    sentences = [factors.caption(row, rng) for row in rows[:20_000]] + [
        factors.name(row) for row in rows[:2_000]
    ]
    sentences += _prompts(rng)
    return torch.unique(
        torch.cat([tokenizer(sentences[i : i + 1000]).flatten() for i in range(0, len(sentences), 1000)])
    )


def contrastive(images: Tensor, texts: Tensor, scale: Tensor) -> Tensor:  # (b, d), (b, d) unnormalised -> ()
    """CLIP's symmetric cross-entropy over the (b, b) scaled cosines, in nats."""
    scores = scale * functional.normalize(images, dim=-1) @ functional.normalize(texts, dim=-1).T
    truth = torch.arange(len(scores), device=scores.device)
    return (functional.cross_entropy(scores, truth) + functional.cross_entropy(scores.T, truth)) / 2


def losses(
    model: open_clip.CLIP,
    heads: nn.Linear,
    pixels: Tensor,  # (b, 3, h, w)
    captions: Tensor,  # (c, L) compact ids; of the first c pictures
    prompts: Tensor,  # (values, L) compact ids; of all attributes, one after the other
    truth: Tensor,  # (attributes, b) which value
) -> dict[str, Tensor]:  # three times () nats; their sum is minimised
    """Of whole captions, of single attributes by prompt, and of the same by the linear heads."""
    sizes = [len(values) for _, values in factors.ATTRIBUTES.values()]
    images, scale = model.encode_image(pixels), model.logit_scale.exp()
    texts = functional.normalize(_encode(model, prompts), dim=-1)
    scores = scale * (functional.normalize(images, dim=-1) @ texts.T)
    return {
        "captions": contrastive(images[: len(captions)], _encode(model, captions), scale),
        "prompts": attribute_loss(scores.split(sizes, dim=1), truth),
        "heads": attribute_loss(heads(images).split(sizes, dim=1), truth),
    }


def attribute_loss(
    scores: Iterable[Tensor],  # per attribute (b, values)
    truth: Iterable[Tensor],  # per attribute (b,) which value
) -> Tensor:  # () nats
    """Cross-entropy of each picture's value against the attribute's other values, summed over attributes."""
    pairs = zip(scores, truth, strict=True)
    return torch.stack([functional.cross_entropy(given, value) for given, value in pairs]).sum()


def pretrain(
    recipe: Pretraining, config: dict
) -> tuple[open_clip.CLIP, Tensor]:  # the model, (v,) ids of its token rows
    """Trains the student from scratch; the same recipe gives the same weights on one machine."""
    frame, pictures = rendered(recipe.pictures, recipe.seed)
    rows = list(frame.itertuples())
    tokenizer = open_clip.SimpleTokenizer(context_length=config["text_cfg"]["context_length"])
    token_ids = vocabulary(tokenizer, rows, recipe.seed)
    truth = torch.tensor(factors.attributes(frame).to_numpy().T)  # (attributes, n)
    torch.manual_seed(recipe.seed)
    model = open_clip.CLIP(**config)
    model.token_embedding = nn.Embedding(
        len(token_ids), config["text_cfg"]["width"]
    )  # the used rows, while training
    nn.init.normal_(model.token_embedding.weight, std=0.02)
    heads = nn.Linear(config["embed_dim"], sum(len(values) for _, values in factors.ATTRIBUTES.values()))
    learning = nn.ModuleDict({"model": model, "heads": heads})
    mean, std = (
        torch.tensor(x).view(3, 1, 1) for x in (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    )

    cells = list(frame.groupby(["colour", "background"]).indices.values())
    optimizers = _optimizers(learning, recipe)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    state = paths.store() / "pretraining" / f"{_digest(recipe, config)}.pt"
    start = _resume(state, learning, optimizers)
    progress = tqdm(range(start, recipe.steps), initial=start, total=recipe.steps, desc="pre-training")
    for step in progress:
        rng = np.random.default_rng([recipe.seed, 2, step])
        batch = _batch(cells, rng, step, recipe)
        told = [factors.caption(rows[i], rng) for i in batch[: recipe.captions]]
        captions, prompts = (_compact(tokenizer(texts), token_ids) for texts in (told, _prompts(rng)))
        pixels = (pictures[batch].float() / 255 - mean) / std
        for optimizer, rates in zip(optimizers, peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = peak * _schedule(step, recipe)
        parts = losses(model, heads, pixels, captions, prompts, truth[:, batch])
        learning.zero_grad()
        sum(parts.values()).backward()
        nn.utils.clip_grad_norm_(learning.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.logit_scale.data.clamp_(max=math.log(100))
        if (step + 1) % 100 == 0:
            said = ", ".join(f"{name} {value.item():.3f}" for name, value in parts.items())
            progress.write(f"step {step + 1}: {said}")
        if (step + 1) % _KEEP_EVERY == 0:
            _keep(state, learning, optimizers, step + 1)
    table = nn.Embedding(config["text_cfg"]["vocab_size"], config["text_cfg"]["width"])
    table.weight.data.zero_()[token_ids] = model.token_embedding.weight.data
    model.token_embedding = table
    return model.eval(), token_ids


def _prompts(rng: np.random.Generator) -> list[str]:
    """A caption for every value of every attribute, all with the same opening."""
    opening = ("a photo of a ", "a picture of a ", "a ")[rng.integers(3)]
    return [
        opening + template.format(value)
        for template, values in factors.ATTRIBUTES.values()
        for value in values
    ]


def _compact(
    tokens: Tensor, token_ids: Tensor
) -> Tensor:  # (b, L) CLIP's ids -> (b, longest) places in token_ids
    return torch.searchsorted(token_ids, tokens[:, : int((tokens != 0).sum(1).max())].contiguous())


def _encode(
    model: open_clip.CLIP, tokens: Tensor
) -> Tensor:  # (b, L) compact ids; end of text has the largest
    x = model.token_embedding(tokens) + model.positional_embedding[: tokens.shape[1]]
    x = model.transformer(x, attn_mask=model.attn_mask[: tokens.shape[1], : tokens.shape[1]])
    return model.ln_final(x)[torch.arange(len(x)), tokens.argmax(-1)] @ model.text_projection


def _batch(
    cells: list, rng: np.random.Generator, step: int, recipe: Pretraining
) -> np.ndarray:  # (batch,) rows
    """A random batch or a hard one, in which colour and background agree and only other factors tell captions apart.

    Hard batches teach texture, silhouette and pose, which the easy cues hide; from the very start they teach nothing.
    """
    pool = np.arange(recipe.pictures)
    if rng.random() < recipe.hard * min(1.0, max(0, step - recipe.easy) / recipe.easy):
        pool = cells[rng.integers(len(cells))]
    return rng.choice(pool, min(recipe.batch, len(pool)), replace=False)


def _optimizers(model: nn.Module, recipe: Pretraining) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the transformers; AdamW for embeddings, projections, gains and offsets."""
    matrices = {name: p for name, p in model.named_parameters() if "resblocks" in name and p.ndim == 2}
    others = [p for name, p in model.named_parameters() if name not in matrices]
    return [
        torch.optim.Muon(
            matrices.values(), lr=recipe.muon_rate, momentum=0.95, weight_decay=recipe.weight_decay
        ),
        torch.optim.AdamW(others, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _schedule(step: int, recipe: Pretraining) -> float:
    """Warm-up, a plateau, and a linear decay to zero."""
    return min(1.0, (step + 1) / recipe.warmup, (recipe.steps - step) / recipe.decay)


def _digest(recipe: Pretraining, config: dict) -> str:
    return sha256(json.dumps([asdict(recipe), config], sort_keys=True).encode()).hexdigest()[:16]


def _keep(state, learning: nn.Module, optimizers: list[torch.optim.Optimizer], step: int) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    partial = state.with_suffix(".partial")
    kept = {
        "learning": learning.state_dict(),
        "optimizers": [o.state_dict() for o in optimizers],
        "step": step,
    }
    torch.save(kept, partial)
    partial.replace(state)


def _resume(state, learning: nn.Module, optimizers: list[torch.optim.Optimizer]) -> int:
    if not state.is_file():
        return 0
    kept = torch.load(state, weights_only=True)
    learning.load_state_dict(kept["learning"])
    for optimizer, found in zip(optimizers, kept["optimizers"], strict=True):
        optimizer.load_state_dict(found)
    return kept["step"]


def main() -> None:
    """Pre-trains by section ``pretraining`` of params.yaml and writes the miniature's weights."""
    recipe = Pretraining(**params.get("pretraining", dict))
    entry = params.get("backbones.miniature", dict)
    config = json.loads((paths.root() / entry["config"]).read_text(encoding="utf-8"))
    model, token_ids = pretrain(recipe, config)
    save_student(model, paths.root() / entry["weights"], token_ids)


if __name__ == "__main__":
    main()
