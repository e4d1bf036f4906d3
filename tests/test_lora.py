import copy

import open_clip
import pytest
import tiny
import torch
from torch import nn

from ask.attention import SplitAttention, SplitMultiheadAttention
from ask.clip import tokenize
from ask.lora import (
    DeadFactorError,
    adapt,
    base_weights,
    check_gradients,
    disabled,
    factors,
    merge,
    trainable_parameters,
)
from ask.towers import image_features, text_features
from ask.weights import fingerprint

TEXTS = ["a photo of a cat", "a", "a photo of the longest text of all"]
LAYOUTS = [{}, tiny.OWN, {"custom_text": True}, {"quick_gelu": True}]


def features(backbone, model):
    """Both towers' embeddings without gradients, short and full context."""
    tokens = tokenize(backbone, TEXTS)
    with torch.no_grad():
        return torch.cat(
            [image_features(model, tiny.pixels()), text_features(model, tokens), model.encode_text(tokens)]
        )


def adapted(rank: int = 4, alpha: float = 8, **changes):
    backbone = tiny.backbone(**changes)
    return backbone, adapt(copy.deepcopy(backbone.model), rank, alpha, seed=0)


@pytest.mark.parametrize("changes", LAYOUTS)
def test_a_fresh_adapter_changes_no_output(changes):
    backbone, model = adapted(**changes)
    assert torch.allclose(features(backbone, model), features(backbone, backbone.model), rtol=0, atol=2e-6)


@pytest.mark.parametrize("changes", LAYOUTS)
def test_only_factors_are_trainable_and_each_receives_a_gradient(changes):
    _, model = adapted(**changes)
    assert {id(p) for p in trainable_parameters(model)} == {id(p) for p in factors(model).values()}
    assert len(factors(model)) == 2 * 2 * 4 * 2  # towers, blocks, projections, A and B
    check_gradients(model)


def test_checking_gradients_leaves_no_trace():
    _, model = adapted()
    before, expected = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    check_gradients(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), expected)


def test_a_factor_without_gradient_is_named():
    _, model = adapted()
    attention = model.visual.transformer.resblocks[1].attn
    attention.forward = lambda query, *_, **__: (attention.out_proj.base_layer(query), None)
    with pytest.raises(
        DeadFactorError,
        match=r"but visual\.transformer\.resblocks\.1\.attn\.q_proj\.lora_A\.\S+ receives none",
    ):
        check_gradients(model)


def test_anything_else_left_trainable_is_named_too():
    _, model = adapted()
    model.logit_scale.requires_grad_(True)
    with pytest.raises(DeadFactorError, match="logit_scale"):
        check_gradients(model)


@pytest.mark.parametrize(("towers", "prefixes"), [(("visual",), {"visual"}), (("text",), {"transformer"})])
def test_one_tower_alone_can_be_adapted(towers, prefixes):
    backbone = tiny.backbone()
    model = adapt(copy.deepcopy(backbone.model), 2, 4, towers=towers, seed=0)
    assert {name.split(".")[0] for name in factors(model)} == prefixes
    check_gradients(model)
    assert fingerprint(base_weights(model)) == backbone.fingerprint


def test_counts_of_vit_b_16_are_the_papers():
    with torch.device("meta"):
        model = open_clip.CLIP(**open_clip.get_model_config("ViT-B-16-quickgelu"))
    adapt(model, 32, 64, seed=0)
    count = {True: 0, False: 0}
    for name, factor in factors(model).items():
        count[name.startswith("visual")] += factor.numel()
    assert count == {True: 2_359_296, False: 1_572_864}
    assert count == {True: 8 * 12 * 768 * 32, False: 8 * 12 * 512 * 32}
    assert sum(parameter.numel() for parameter in trainable_parameters(model)) == sum(count.values())


@pytest.mark.parametrize("kind", [SplitMultiheadAttention, SplitAttention])
def test_every_projection_is_updated_exactly_once(kind):
    """The output equals that of the fused attention with W + (alpha / rank) · B A put in by hand."""
    block, attention = _lone_attention(kind)
    tiny.teach(block, size=0.3)
    by_hand = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    parts = {}
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        layer = getattr(attention, name)
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        parts[name] = (layer.base_layer.weight + 16 / 2 * b @ a).detach(), layer.base_layer.bias.detach()
    by_hand.in_proj_weight.data = torch.cat([parts[name][0] for name in ("q_proj", "k_proj", "v_proj")])
    by_hand.in_proj_bias.data = torch.cat([parts[name][1] for name in ("q_proj", "k_proj", "v_proj")])
    by_hand.out_proj.weight.data, by_hand.out_proj.bias.data = parts["out_proj"]
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = by_hand(x, x, x, need_weights=False)[0]
    assert torch.allclose(attention.attend(x, x, x, None), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [SplitMultiheadAttention, SplitAttention])
def test_gradients_of_inputs_and_factors_are_those_of_finite_differences(kind):
    block, attention = _lone_attention(kind)
    tiny.teach(block, size=0.3)
    x = torch.randn(
        2, 3, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    mask = torch.full((3, 3), float("-inf"), dtype=torch.float64).triu(1)
    learned = list(factors(block).values())
    assert torch.autograd.gradcheck(lambda x, *_: attention.attend(x, x, x, mask), (x, *learned))


def _lone_attention(kind):
    """One adapted attention in double precision inside the least that `adapt` calls a model."""
    holder = nn.Module()
    holder.visual, block = nn.Module(), nn.Module()
    holder.visual.transformer = nn.Module()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fused = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
        nn.init.normal_(fused.in_proj_bias)
    if kind is SplitAttention:
        owned = nn.Module()
        owned.num_heads, owned.out_proj = 3, fused.out_proj
        owned.in_proj_weight, owned.in_proj_bias = fused.in_proj_weight, fused.in_proj_bias
        fused = owned
    block.attn = fused
    holder.visual.transformer.resblocks = nn.ModuleList([block])
    adapt(holder, 2, 16, towers=("visual",), seed=0)
    assert type(block.attn) is kind
    return holder, block.attn


@pytest.mark.parametrize("changes", LAYOUTS)
def test_a_merged_checkpoint_of_plain_open_clip_agrees(changes):
    backbone, model = adapted(**changes)
    tiny.teach(model)
    assert not torch.allclose(
        features(backbone, model), features(backbone, backbone.model), rtol=0, atol=1e-2
    )
    fresh = tiny.backbone(seed=1, **changes).model
    fresh.load_state_dict(merge(model))
    assert torch.allclose(features(backbone, fresh), features(backbone, model), rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", LAYOUTS)
def test_the_base_stays_bit_for_bit_through_training_evaluation_and_merging(changes):
    backbone, model = adapted(**changes)
    assert fingerprint(base_weights(model)) == backbone.fingerprint
    optimizer = torch.optim.AdamW(trainable_parameters(model), lr=1e-2)
    tokens = tokenize(backbone, TEXTS)
    for _ in range(3):
        loss = (
            image_features(model, tiny.pixels()).square().sum() + text_features(model, tokens).square().sum()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with disabled(model):
            features(backbone, model)
        merge(model)
    assert all(factor.any() for factor in factors(model).values())
    assert fingerprint(base_weights(model)) == backbone.fingerprint
    assert base_weights(model).keys() == backbone.model.state_dict().keys()


def test_the_base_stays_bit_for_bit_in_half_precision():
    backbone = tiny.backbone()
    base = backbone.model.bfloat16()
    before = fingerprint(base)
    model = tiny.teach(adapt(base, 4, 8, seed=0))
    assert {factor.dtype for factor in factors(model).values()} == {torch.float32}
    for _ in range(5):
        with disabled(model), torch.no_grad():
            image_features(model, tiny.pixels().bfloat16())
        image_features(model, tiny.pixels().bfloat16()).float().sum().backward()
    assert fingerprint(base_weights(model)) == before
    assert {value.dtype for value in merge(model).values()} == {torch.bfloat16}


def test_disabling_restores_the_base_exactly_and_only_within_the_block():
    backbone, model = adapted()
    fresh = features(backbone, model)
    taught = features(backbone, tiny.teach(model))
    with disabled(model) as base:
        assert torch.equal(features(backbone, base), fresh)
        with disabled(base):
            assert torch.equal(features(backbone, base), fresh)
        assert torch.equal(features(backbone, base), fresh), "an inner block must not end the outer one"
    assert torch.equal(features(backbone, model), taught)
    assert all(factor.requires_grad for factor in factors(model).values())


def test_disabling_ends_with_an_error_too_and_keeps_frozen_factors_frozen():
    backbone, model = adapted()
    model.requires_grad_(False)
    taught = features(backbone, tiny.teach(model))
    with pytest.raises(KeyError), disabled(model):
        raise KeyError
    assert torch.equal(features(backbone, model), taught)
    assert trainable_parameters(model) == []


def test_a_loss_computed_before_the_base_was_asked_still_trains():
    backbone, model = adapted()
    loss = image_features(tiny.teach(model), tiny.pixels()).sum()
    with disabled(model):
        features(backbone, model)
    loss.backward()
    assert all(factor.grad.any() for name, factor in factors(model).items() if name.startswith("visual"))


def test_factors_follow_the_seed_and_leave_the_callers_random_state_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    drawn = [factors(adapt(tiny.backbone().model, 4, 8, seed=seed)) for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(1), expected)
    same, other = (all(torch.equal(drawn[0][name], drawn[i][name]) for name in drawn[0]) for i in (1, 2))
    assert same
    assert not other


def test_short_context_encoding_is_exact_with_adapters():
    backbone, model = adapted()
    tiny.teach(model).double()
    tokens = tokenize(backbone, TEXTS)
    assert torch.allclose(text_features(model, tokens), model.encode_text(tokens), rtol=0, atol=1e-12)


def test_an_adapted_model_is_not_adapted_twice():
    with pytest.raises(ValueError, match="must be plain, but has an adapter already"):
        adapt(adapted()[1], 4, 8, seed=0)


@pytest.mark.parametrize(
    ("rank", "towers", "said"),
    [
        (0, ("visual",), "rank must be at least 1, but is 0"),
        (2, (), "towers must be some of visual, text"),
        (2, ("image",), "but are .'image'"),
    ],
)
def test_nonsense_is_refused(rank, towers, said):
    with pytest.raises(ValueError, match=said):
        adapt(tiny.backbone().model, rank, 8, towers=towers, seed=0)
