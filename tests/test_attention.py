import pytest
import tiny
import torch
from torch import nn

from ask.attention import SplitAttention, SplitMultiheadAttention, UnknownLayoutError, split_tower
from ask.clip import tokenize
from ask.towers import image_features, text_features

CAUSAL = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1)


class Fused(nn.Module):
    """An attention as open_clip's next major version has it, written out with loops over images and heads."""

    def __init__(self, width: int, heads: int, bias: bool = True):
        super().__init__()
        self.num_heads = heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * width, width) / width**0.5)
        self.in_proj_bias = nn.Parameter(torch.randn(3 * width)) if bias else None
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, attn_mask=None):
        rows = []
        for image in x:
            q, k, v = nn.functional.linear(image, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            heads = zip(*(part.chunk(self.num_heads, dim=-1) for part in (q, k, v)), strict=True)
            scores = [
                (q @ k.T / q.shape[-1] ** 0.5 + (0 if attn_mask is None else attn_mask), v)
                for q, k, v in heads
            ]
            rows.append(self.out_proj(torch.cat([score.softmax(-1) @ v for score, v in scores], dim=-1)))
        return torch.stack(rows)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("mask", [None, CAUSAL])
@pytest.mark.parametrize("bias", [True, False])
def test_open_clips_own_layout_computes_the_same(mask, bias):
    fused, x = Fused(12, 3, bias).double(), torch.randn(4, 5, 12, dtype=torch.float64)
    assert torch.allclose(
        SplitAttention(fused)(x, attn_mask=mask), fused(x, attn_mask=mask), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize(
    "mask", [None, CAUSAL, CAUSAL.bool(), CAUSAL.expand(12, 5, 5), CAUSAL.bool().expand(12, 5, 5)]
)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_torchs_layout_computes_the_same_for_every_mask_and_order_of_axes(mask, batch_first, bias):
    fused = nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first, dtype=torch.float64)
    x = torch.randn(*((4, 5) if batch_first else (5, 4)), 12, dtype=torch.float64)
    expected = fused(x, x, x, need_weights=False, attn_mask=mask)[0]
    found, weights = SplitMultiheadAttention(fused)(x, x, x, need_weights=False, attn_mask=mask)
    assert torch.allclose(found, expected, rtol=0, atol=1e-14)
    assert weights is None


def test_every_image_has_a_mask_of_its_own():
    fused = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    x, mask = torch.randn(2, 5, 12, dtype=torch.float64), torch.randn(2 * 3, 5, 5, dtype=torch.float64)
    expected = fused(x, x, x, need_weights=False, attn_mask=mask)[0]
    assert torch.allclose(
        SplitMultiheadAttention(fused)(x, x, x, attn_mask=mask)[0], expected, rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("fused", [nn.MultiheadAttention(12, 3), Fused(12, 3), Fused(12, 3, bias=False)])
def test_the_fused_tensors_come_back_bit_for_bit(fused):
    expected = fused.state_dict()
    found = SplitAttention(fused).fused(lambda layer: layer.weight)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("changes", [{}, tiny.OWN, {"custom_text": True}])
def test_both_towers_of_both_layouts_keep_their_outputs(changes):
    backbone = tiny.backbone(**changes)
    model, tokens = backbone.model, tokenize(backbone, ["a photo of a cat", "a"])
    with torch.no_grad():
        before = image_features(model, tiny.pixels()), text_features(model, tokens), model.encode_text(tokens)
        for tower in ("visual", "text"):
            split_tower(model, tower)
        after = image_features(model, tiny.pixels()), text_features(model, tokens), model.encode_text(tokens)
    assert all(torch.allclose(*pair, rtol=0, atol=2e-6) for pair in zip(before, after, strict=True))
    assert sum(isinstance(module, SplitAttention) for module in model.modules()) == 4


@pytest.mark.parametrize(
    ("odd", "seen"),
    [
        (
            nn.MultiheadAttention(32, 2, kdim=16, vdim=16),
            r"q_proj_weight \(32, 32\), k_proj_weight \(32, 16\)",
        ),
        (nn.MultiheadAttention(32, 2, add_bias_kv=True), r"bias_k \(1, 1, 32\)"),
        (nn.MultiheadAttention(32, 2, add_zero_attn=True), "MultiheadAttention"),
        (nn.MultiheadAttention(32, 2, dropout=0.1), "MultiheadAttention"),
        (nn.Linear(32, 32), r"Linear with weight \(32, 32\), bias \(32,\)"),
        (nn.Identity(), "Identity with nothing"),
    ],
)
def test_another_attention_is_refused_with_what_was_seen(odd, seen):
    model = tiny.backbone().model
    model.visual.transformer.resblocks[1].attn = odd
    with pytest.raises(UnknownLayoutError, match=f"but block 1 of the visual tower has .*{seen}"):
        split_tower(model, "visual")
    assert not any(isinstance(module, SplitAttention) for module in model.modules()), "all or nothing"


@pytest.mark.parametrize("option", ["qk_norm", "scaled_cosine_attn", "scale_heads", "scale_attn_inner"])
def test_open_clips_attention_with_extras_is_refused(option):
    model = tiny.backbone(vision_cfg=tiny.IMAGE | {option: True}).model
    with pytest.raises(UnknownLayoutError, match="has Attention with in_proj_weight"):
        split_tower(model, "visual")


def test_a_tower_that_is_no_transformer_is_refused():
    model = tiny.backbone(
        vision_cfg={"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "head_width": 8}
    ).model
    with pytest.raises(UnknownLayoutError, match=r"visual tower .* but is a ModifiedResNet of conv1, bn1"):
        split_tower(model, "visual")
