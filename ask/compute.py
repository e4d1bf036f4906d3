"""Where and how precisely a student is trained: values of section ``training`` that change its speed, not its meaning.

In reading order: `best_device`, `Compute`. Adapters, losses and kernels are float32 or wider whatever is chosen here;
only the towers may run in bfloat16.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

DEVICES = "auto, cpu, cuda, cuda:1 or mps"
PRECISIONS = ("auto", "float32", "bfloat16")
MATMUL_PRECISIONS = ("highest", "high", "medium")


def best_device(wanted: str = "auto") -> torch.device:
    """The device by name; ``auto`` is a GPU where torch finds one, else the CPU.

    Raises:
        ValueError: if there is no such device here.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=wanted).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        told = str(error).partition("\n")[0]
        raise ValueError(f"device must be {DEVICES}, but {wanted!r} is not to be had here: {told}") from error


@dataclass(frozen=True)
class Compute:
    """How a student is computed while it is trained.

    Raises:
        ValueError: if a name is unknown; the known ones are listed.
    """

    device: str = "cpu"
    precision: str = "auto"  # of the towers: bfloat16 means autocast; auto is bfloat16 on a GPU, else float32
    matmul_precision: str = "highest"  # of float32 products: high is TF32 on a GPU, medium is bfloat16
    compiled: bool = False  # torch.compile of the towers: starts after a minute, then pays on a GPU
    checkpointing: bool = False  # activations computed twice instead of kept: less memory, a third more time

    def __post_init__(self):
        for name, known in (("precision", PRECISIONS), ("matmul_precision", MATMUL_PRECISIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, but is {getattr(self, name)!r}")

    def autocast(self, device: torch.device) -> AbstractContextManager:
        """Within it the towers run in the chosen precision."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.towers(device) == "bfloat16")

    def towers(self, device: torch.device) -> str:
        """The precision of the towers on a device, float32 or bfloat16."""
        chosen = "bfloat16" if device.type == "cuda" else "float32"
        return chosen if self.precision == "auto" else self.precision

    @contextmanager
    def matmul(self) -> Iterator[None]:
        """Within it float32 matrix products have the chosen precision; it is torch's for the whole process."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self.matmul_precision)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    def prepared(self, model: nn.Module) -> nn.Module:
        """The model itself, keeping or recomputing its activations as chosen."""
        for part in model.modules():
            if hasattr(part, "grad_checkpointing"):
                part.grad_checkpointing = self.checkpointing
        return model

    def tower(self, features: Callable[..., Tensor], device: torch.device) -> Callable[..., Tensor]:
        """A function of `ask.towers` in the chosen precision; if compiled, its shapes must stay the same."""
        compiled = torch.compile(features, dynamic=False) if self.compiled else features

        def run(*given: object) -> Tensor:
            with self.autocast(device):
                return compiled(*given)

        return run
