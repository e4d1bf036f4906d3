"""Both towers agree with open_clip's own, gradients included, and compute less."""

import pytest
import tiny
import torch

from ask import lora
from ask.clip import normalized, tokenize
from ask.packing import pack
from ask.towers import image_features, text_features

TEXTS = ["a photo of a cat", "a", "a photo of the longest text of them all, by far", "a photo of a cat"]


@pytest.mark.parametrize("changes", [{}, {"custom_text": True}, tiny.OWN, {"quick_gelu": True}])
def test_packed_texts_equal_those_at_full_length(changes):
    backbone = tiny.backbone(**changes)
    tokens = tokenize(backbone, TEXTS)
    for model, tolerance in ((backbone.model, 1e-6), (backbone.model.double(), 1e-13)):
        packed, full = text_features(model, tokens), model.encode_text(tokens)
        assert torch.allclose(normalized(packed), normalized(full), rtol=0, atol=tolerance)
        assert torch.equal(text_features(model, tokens, pack(tokens)), packed)


@pytest.mark.parametrize("changes", [{}, tiny.OWN, {"vision_cfg": tiny.IMAGE | {"pool_type": "avg"}}])
def test_pictures_equal_those_of_open_clip(changes):
    model = tiny.backbone(**changes).model.double()
    pixels = tiny.pixels().double()
    assert torch.allclose(image_features(model, pixels), model.encode_image(pixels), rtol=0, atol=1e-13)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("adapted", [False, True])
def test_gradients_equal_those_of_open_clip(adapted, checkpointing):
    backbone = tiny.backbone()
    model, tokens = backbone.model.double(), tokenize(backbone, TEXTS)
    if adapted:
        tiny.teach(lora.adapt(model, 4, 8.0, seed=0))
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.set_grad_checkpointing(checkpointing)
    pixels, grads = tiny.pixels().double(), []
    for images, texts in (
        (image_features(model, pixels), text_features(model, tokens)),
        (model.encode_image(pixels), model.encode_text(tokens)),
    ):
        loss = images.square().sum() + texts.square().sum()
        grads.append(torch.autograd.grad(loss, wanted, allow_unused=True))
    for fast, full in zip(*grads, strict=True):
        assert (fast is None) == (full is None)
        assert fast is None or torch.allclose(fast, full, rtol=1e-9, atol=1e-11)


def test_linear_layers_see_every_beginning_once_and_the_last_block_the_ends_only():
    backbone = tiny.backbone()
    seen = []
    for block in backbone.model.transformer.resblocks:
        block.ln_1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
        block.mlp.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    # start, a, cat, end of both, dog, end
    text_features(backbone.model, tokenize(backbone, ["a cat", "a dog", "a cat"]))
    assert seen == [(6, 32), (6, 32), (6, 32), (3, 32)]


def test_the_last_image_block_sees_class_tokens_only():
    model = tiny.backbone().model
    seen = []
    for block in model.visual.transformer.resblocks:
        block.mlp.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    image_features(model, tiny.pixels())
    assert seen == [(3, 5, 32), (3, 1, 32)]


def test_a_tower_that_looks_both_ways_is_encoded_at_full_length():
    text = tiny.TEXT | {"no_causal_mask": True, "pool_type": "last"}
    backbone = tiny.backbone(custom_text=True, text_cfg=text)
    tokens = tokenize(backbone, TEXTS)
    assert torch.equal(text_features(backbone.model, tokens), backbone.model.encode_text(tokens))


def test_tokens_of_another_context_are_refused():
    backbone = tiny.backbone()
    tokens = backbone.tokenizer(["cat " * 20], context_length=77)
    with pytest.raises(ValueError, match="must end within 16 tokens, but one has 22"):
        text_features(backbone.model, tokens)


def test_under_autocast_features_are_float32_and_near():
    backbone = tiny.backbone()
    tokens = tokenize(backbone, TEXTS)
    exact = image_features(backbone.model, tiny.pixels()), text_features(backbone.model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        near = image_features(backbone.model, tiny.pixels()), text_features(backbone.model, tokens)
    for rounded, wanted in zip(near, exact, strict=True):
        assert rounded.dtype == torch.float32
        assert not torch.equal(rounded, wanted)
        assert torch.allclose(normalized(rounded), normalized(wanted), atol=0.02)
