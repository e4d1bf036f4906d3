"""The paper's whole training on one GPU: `python -m benchmarks.gpu`, or `make gpu` after the GPU tests.

3,000 steps of ViT-B/16 with 32 pictures and the thousand prompts, towers compiled and in bfloat16, weights random (time
does not depend on them). Printed are seconds per step without the first few, which compile; what the step reaches of
the arithmetic that it cannot do without, and of the products that the GPU reaches alone; memory, also of a few steps of
ViT-L/14 at 336 pixels with activations recomputed. Other sizes, and `--device cpu`, are for trying the script.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from ask import clip, lora, train
from ask.compute import Compute
from ask.packing import pack
from benchmarks.floor import image_work, imagenet_prompts, text_work
from benchmarks.measure import matmul_rate, shown
from benchmarks.projecting import projection
from benchmarks.steps import LINK, RANK, recipe

GROUPS = 93  # ASK, section C.1
WARM = 10  # steps that are not counted: they compile


def trained(
    arch: str, *, steps: int, images: int, prompts: int, groups: int, compute: Compute
) -> dict[str, float]:
    """Trains a random model of one architecture, and what that took."""
    base = clip.load_backbone(arch, {"arch": arch, "random": 0}, compute.device)
    reference = clip.frozen_reference(base.model)
    student = lora.adapt(base.model, RANK, 2.0 * RANK, seed=0)
    tokens = clip.tokenize(base, imagenet_prompts()[:prompts])
    size, seed = base.model.visual.image_size, torch.Generator().manual_seed(0)
    shape = (groups * images, 3, *size)
    pictures = torch.randint(0, 256, shape, generator=seed, dtype=torch.uint8).to(compute.device)
    began: list[float] = []

    def timed(todo: range) -> Iterator[int]:
        for step in tqdm(todo, desc=arch):
            began.append(time.perf_counter())
            yield step
        if compute.device == "cuda":
            torch.cuda.synchronize()
        began.append(time.perf_counter())

    if compute.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    train.train(
        student,
        reference,
        pixels=lambda rows: pictures[torch.from_numpy(rows)].float() / 127.5 - 1,
        groups=np.arange(groups * images).reshape(groups, images),
        targets=torch.eye(images).repeat(groups, 1, 1) * 0.5 + 0.5,
        link=LINK,
        anchor_tokens=tokens,
        recipe=recipe(steps),
        compute=compute,
        progress=timed,
    )
    took = np.diff(began)
    warm = min(WARM, steps // 2)
    work = image_work(student, images, RANK).step + text_work(student, pack(tokens), RANK).step
    step = float(took[warm:].mean())
    found = {
        "first steps, seconds": float(took[:warm].sum()),
        "other steps, seconds": float(took[warm:].sum()),
        "a step, milliseconds": 1e3 * step,
        "a step, median milliseconds": 1e3 * statistics.median(took[warm:]),
        f"{steps} steps at that pace, seconds": steps * step,
        "counted floor of a step, TFLOP": work / 1e12,
        "reached, TFLOP/s": work / step / 1e12,
    }
    if compute.device == "cuda":
        found["memory, GB"] = torch.cuda.max_memory_allocated() / 1e9
    return found


def main() -> None:
    """Runs all parts and prints and writes what they found."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="The paper's training, timed."
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--arch", default="ViT-B-16-quickgelu")
    parser.add_argument("--large", default="ViT-L-14-336-quickgelu", help="of which a few steps are taken")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu.json"))
    given = parser.parse_args()
    on_gpu = given.device == "cuda"
    size = {"images": given.images, "prompts": given.prompts, "groups": given.groups}
    fast = Compute(given.device, matmul_precision="high", compiled=not given.eager)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    found = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        given.arch: trained(given.arch, steps=given.steps, **size, compute=fast),
    }
    rate = matmul_rate(given.images * 197, 768, 3072, given.device, dtype) / 1e12
    found[given.arch] |= {
        "products alone, TFLOP/s": rate,
        "share of the floor": found[given.arch]["reached, TFLOP/s"] / rate,
    }
    lean = Compute(given.device, matmul_precision="high", checkpointing=True)
    found[given.large] = trained(given.large, steps=4, **size | {"groups": 1}, compute=lean)
    print(json.dumps(found, indent=1))
    print(shown(projection()))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
