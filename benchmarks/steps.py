"""A training step and the text bank: plain, fair and ours, at the shapes of ViT-B/16 with a share of the group.

``plain`` encodes 77 tokens and asks the frozen model about pictures and prompts at every step; ``fair`` asks it about
the prompts once; ``ours`` is `ask.train.train`. All take the same steps.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from ask import clip, lora, train
from ask.compute import Compute
from ask.embedding import embed_texts
from ask.kernels import Link
from ask.packing import pack
from benchmarks.floor import image_work, imagenet_prompts, spread, text_work
from benchmarks.measure import Seconds, interleaved, matmul_rate, table
from benchmarks.plain import plain_steps

LINK = Link(0.01, 0.3)
RANK = 32  # ASK, section C.3


def recipe(steps: int, rank: int = RANK, sample: int = 1000) -> train.Recipe:
    """The paper's, with other numbers of steps and prompts."""
    return train.Recipe(
        rank=rank,
        alpha=2.0 * rank,
        steps=steps,
        learning_rate=1e-5,
        weight_decay=1e-4,
        warmup=100,
        schedule="cosine",
        objective="kernel-mse",
        anchor="kl",
        anchor_weight=0.1,
        anchor_sample=sample,
        seed=0,
    )


def our_steps(
    student, reference, *, pixels, groups, targets, tokens, given: train.Recipe, compute: Compute
) -> list[float]:  # seconds of every step but the first
    """Seconds that the fast loop takes, step by step; what it does once is not counted."""
    began: list[float] = []

    def timed(steps: range) -> Iterator[int]:
        for step in steps:
            began.append(time.perf_counter())
            yield step
        began.append(time.perf_counter())

    for name, factor in lora.factors(student).items():
        if name.endswith("lora_B"):
            factor.data.zero_()  # untrained again
    train.train(
        student,
        reference,
        pixels=pixels,
        groups=groups,
        targets=targets,
        link=LINK,
        anchor_tokens=tokens,
        recipe=given,
        compute=compute,
        progress=timed,
    )
    return list(np.diff(began))[1:]


def training_step(
    images: int = 4, prompts: int = 125, repeats: int = 3
) -> tuple[list[dict], dict[str, float]]:
    """Rows of the table, and what is told beside it."""
    base = clip.load_backbone("vit-b-16", {"arch": "ViT-B-16-quickgelu", "random": 0})
    reference = clip.frozen_reference(base.model)
    student = lora.adapt(base.model, RANK, 2.0 * RANK, seed=0)
    tokens = clip.tokenize(base, [imagenet_prompts()[i] for i in spread(prompts)])
    pictures = torch.randn(images, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    groups = np.arange(images)[None]
    targets = torch.eye(images)[None] * 0.5 + 0.5
    given = {"pixels": lambda rows: pictures[rows], "groups": groups, "targets": targets}

    def plain(bank_once: bool) -> Callable[[], Seconds]:
        def second_step() -> Seconds:
            twice = {"groups": np.repeat(groups, 2, 0), "targets": targets.repeat(2, 1, 1)}
            steps = plain_steps(
                student,
                reference,
                **(given | twice),
                link=LINK,
                tokens=tokens,
                recipe=recipe(2),
                bank_once=bank_once,
            )
            if bank_once:
                next(steps)
            began = time.perf_counter()
            next(steps)
            return Seconds(time.perf_counter() - began)

        return second_step

    def ours() -> Seconds:
        return Seconds(
            our_steps(student, reference, **given, tokens=tokens, given=recipe(2), compute=Compute())[0]
        )

    found = interleaved({"plain": plain(False), "fair": plain(True), "ours": ours}, repeats)
    work = image_work(student, images, RANK).step + text_work(student, pack(tokens), RANK).step
    rate = matmul_rate(images * 197, 768, 3072)
    told = {
        "counted floor, GFLOP": work / 1e9,
        "matrix products, GFLOP/s": rate / 1e9,
        "share of the floor": work / rate / found["ours"].seconds,
    }
    return table(f"training step, ViT-B/16, {images} images, {prompts} prompts", found), told


def text_bank(prompts: int = 250, repeats: int = 3) -> list[dict]:
    """Features of frozen prompts: 77 tokens each, against packed."""
    base = clip.load_backbone("vit-b-16", {"arch": "ViT-B-16-quickgelu", "random": 0})
    texts = [imagenet_prompts()[i] for i in spread(prompts)]
    tokens = clip.tokenize(base, texts)

    @torch.no_grad()
    def plain() -> None:
        for chunk in tokens.split(64):
            base.model.encode_text(chunk)

    found = interleaved({"77 tokens": plain, "ours": lambda: embed_texts(base, texts)}, repeats)
    return table(f"text bank, ViT-B/16, {prompts} prompts", found)


def miniature_step(repeats: int = 5) -> tuple[list[dict], dict[str, float]]:
    """The default pipeline's own step: 32 pictures, 48 of 1,000 prompts."""
    base = clip.load_backbone("miniature")
    reference = clip.frozen_reference(base.model)
    student = lora.adapt(base.model, 16, 32.0, seed=0)
    words = ("brown", "white", "black", "orange", "pink")
    texts = [f"a photo of a {a} and {b} heart critter" for a in words for b in words][:24] * 2
    tokens = clip.tokenize(base, texts)
    pictures = torch.randn(32, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    groups, targets = np.arange(32)[None].repeat(6, 0), torch.eye(32).repeat(6, 1, 1) * 0.5 + 0.5
    given = {"pixels": lambda rows: pictures[rows], "groups": groups, "targets": targets, "tokens": tokens}

    def plain() -> Seconds:
        began = time.perf_counter()
        for _ in plain_steps(student, reference, **given, link=LINK, recipe=recipe(6, 16)):
            pass
        return Seconds((time.perf_counter() - began) / 6)

    def ours() -> Seconds:
        steps = our_steps(student, reference, **given, given=recipe(6, 16), compute=Compute())
        return Seconds(np.median(steps))

    found = interleaved({"plain": plain, "ours": ours}, repeats)
    work = image_work(student, 32, 16).step + text_work(student, pack(tokens), 16).step
    rate = matmul_rate(32 * 37, 128, 128)
    return table("training step, miniature, 32 images, 48 prompts", found), {
        "counted floor, GFLOP": work / 1e9,
        "matrix products, GFLOP/s": rate / 1e9,
        "share of the floor": work / rate / found["ours"].seconds,
    }
