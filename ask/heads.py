"""The heads that are trained on frozen image features in place of LoRA on the image tower (ASK, table 5d)."""

import torch
from torch import Tensor, nn


class LinearHead(nn.Module):
    """h = W x with W (d, d), no bias, the identity at first: d² parameters, 262,144 at d = 512."""

    def __init__(self, d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(d))

    def forward(
        self,
        features: Tensor,  # (n, d)
    ) -> Tensor:  # (n, d)
        """The mapped features."""
        return features @ self.weight.T


class MLPHead(nn.Module):
    """h = x + W₂ GELU(W₁ x + b₁) + b₂ with W₂ = b₂ = 0 at first: 2,362,112 parameters at d = 512.

    W₁ and b₁ are drawn from `seed` as those of any Linear layer.
    """

    def __init__(self, d: int, hidden: int = 2304, *, seed: int):  # 2304: ASK, section E.5
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.into = nn.Linear(d, hidden)
            self.out = nn.Linear(hidden, d)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        features: Tensor,  # (n, d)
    ) -> Tensor:  # (n, d)
        """The moved features."""
        return features + self.out(nn.functional.gelu(self.into(features)))
