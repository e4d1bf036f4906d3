import json
import math

import open_clip
import pytest
import tiny
import torch
from PIL import Image

from ask.clip import (
    UnknownBackboneError,
    frozen_reference,
    load_backbone,
    logits,
    normalized,
    tokenize,
)
from ask.towers import image_features
from ask.weights import ActivationError, save_student

TEXTS = ["a photo of a cat", "a", "a photo of the longest text of them all, by far"]


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a test must not fetch weights")

    monkeypatch.setattr(open_clip, "download_pretrained", refuse)


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    """A project whose params.yaml knows two backbones."""
    tiny.write(tmp_path, "tiny")
    (tmp_path / "params.yaml").write_text(
        "backbones:\n  small: {config: tiny.json, random: 3}\n  other: {config: tiny.json, random: 4}\n"
    )
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.setenv("ASK_ROOT", str(tmp_path))


def test_a_name_of_the_catalogue_is_found_from_anywhere(catalogue, monkeypatch):
    monkeypatch.chdir("/")
    small = load_backbone("small")
    assert (small.name, small.weights, small.activation) == ("small", "random:3", "gelu")
    assert small.fingerprint == tiny.backbone(3).fingerprint


def test_an_unknown_name_lists_the_known_ones(catalogue):
    with pytest.raises(UnknownBackboneError, match=r"'big' is unknown; params\.yaml lists other, small"):
        load_backbone("big")


def test_an_unknown_architecture_or_tag_lists_the_known_ones():
    with pytest.raises(UnknownBackboneError, match=r"'ViT-Q' is unknown; open_clip has .*ViT-B-16"):
        load_backbone("x", {"arch": "ViT-Q", "pretrained": "openai"})
    with pytest.raises(UnknownBackboneError, match=r"'openia' of ViT-B-16 are unknown; open_clip has openai"):
        load_backbone("x", {"arch": "ViT-B-16", "pretrained": "openia"})


def test_an_entry_is_one_model():
    with pytest.raises(ValueError, match="must have either config or arch"):
        load_backbone("x", {"random": 0})
    with pytest.raises(ValueError, match="must have either config or arch"):
        load_backbone("x", {"arch": "ViT-B-16", "config": "tiny.json", "random": 0})


def test_a_model_without_weights_is_never_made_by_accident(tmp_path):
    with pytest.raises(ValueError, match="has neither weights nor pretrained and would be random"):
        load_backbone("x", {"config": tiny.write(tmp_path, "tiny"), "weights": None})


def test_a_random_model_follows_its_seed_and_leaves_the_callers_alone(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    config = tiny.write(tmp_path, "tiny")
    prints = [load_backbone("x", {"config": config, "random": seed}).fingerprint for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(1), expected)
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize(
    ("arch", "tag", "right"),
    [
        ("RN50", "openai", "RN50-quickgelu"),
        ("ViT-B-32", "openai", "ViT-B-32-quickgelu"),
        ("ViT-B-32", "metaclip-400m", "ViT-B-32-quickgelu"),
        ("ViT-B-32-quickgelu", "laion2b_s34b_b79k", "ViT-B-32"),
    ],
)
def test_weights_of_the_other_activation_are_refused_before_they_are_fetched(arch, tag, right):
    with pytest.raises(ActivationError, match=rf"use the architecture {right}$"):
        load_backbone("x", {"arch": arch, "pretrained": tag})


def test_a_file_of_known_weights_is_checked_like_its_tag(tmp_path):
    entry = {"arch": "ViT-B-32", "pretrained": "openai", "weights": str(tmp_path / "copy.safetensors")}
    with pytest.raises(
        ActivationError, match=r"copy\.safetensors was trained with quickgelu, .*-32-quickgelu"
    ):
        load_backbone("x", entry)


def test_every_quickgelu_tag_of_open_clip_has_an_architecture_to_use():
    for arch, tag in open_clip.list_pretrained():
        if open_clip.get_pretrained_cfg(arch, tag).get("quick_gelu") and "quickgelu" not in arch:
            config = open_clip.get_model_config(arch)
            assert config.get("quick_gelu") or f"{arch}-quickgelu" in open_clip.list_models(), (arch, tag)


@pytest.mark.parametrize(
    ("quick_gelu", "expected"), [(False, [-1.44092, 0.05087]), (True, [-1.44063, 0.05072])]
)
def test_each_activation_gives_its_known_answer(quick_gelu, expected):
    model = tiny.backbone(quick_gelu=quick_gelu).model
    for number, value in enumerate(model.visual.parameters()):
        value.data = torch.sin(torch.arange(value.numel()) * 1.7 + number).reshape(value.shape)
    wave = torch.cos(torch.arange(3.0 * 32 * 32)).reshape(1, 3, 32, 32)
    with torch.no_grad():
        answer = image_features(model, wave)[0, :2]
    assert answer.tolist() == pytest.approx(expected, abs=5e-5)


def test_preprocessing_and_tokenizer_come_from_the_models_own_config(tmp_path):
    white = Image.new("RGB", (50, 40), "white")
    usual = tiny.backbone().preprocess(white)
    mean, std = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD
    assert usual.shape == (3, 32, 32)
    assert usual[:, 0, 0].tolist() == pytest.approx([(1 - m) / s for m, s in zip(mean, std, strict=True)])
    pixels = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}
    (tmp_path / "own.json").write_text(json.dumps({"model_cfg": tiny.PLAIN, "preprocess_cfg": pixels}))
    own = load_backbone("own", {"config": str(tmp_path / "own.json"), "random": 0})
    assert own.preprocess(white)[:, 0, 0].tolist() == pytest.approx([2, 2, 2])
    assert tokenize(own, ["a photo"]).shape == (1, 16)


def test_a_text_that_would_be_cut_is_refused():
    backbone = tiny.backbone()
    fits = " ".join(["cat"] * 14)  # and a start and an end: 16
    assert tokenize(backbone, ["a", fits])[1, 15] == 49407
    with pytest.raises(ValueError, match=r"fit 16 tokens, but text 1 does not; shorten 'cat cat .* dog'"):
        tokenize(backbone, ["a", f"{fits} dog"])


def test_a_word_that_a_small_student_never_met_is_refused(tmp_path):
    source = tiny.backbone()
    save_student(source.model, tmp_path / "s.safetensors", tokenize(source, ["a photo of a cat"]).unique())
    entry = {"config": tiny.write(tmp_path, "tiny"), "weights": str(tmp_path / "s.safetensors")}
    student = load_backbone("s", entry)
    assert tokenize(student, ["a cat of a photo", "cat"]).shape == (2, 16)
    with pytest.raises(ValueError, match="s has no embedding of 'dog', a part of 'a photo of a dog'"):
        tokenize(student, ["cat", "a photo of a dog"])


def test_features_are_not_normalised_and_normalized_ones_are():
    features = image_features(tiny.backbone().model, tiny.pixels())
    assert not torch.allclose(features.norm(dim=-1), torch.ones(3), atol=1e-2)
    assert torch.allclose(normalized(features).norm(dim=-1), torch.ones(3), atol=1e-6)


def test_logits_take_the_exponential_of_the_stored_scale_once():
    images, texts = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 3.0], [5.0, 0.0]])
    assert logits(images, texts, torch.tensor(math.log(100.0))).tolist() == [[0.0, pytest.approx(100.0)]]
    probabilities = logits(images, texts, torch.tensor(0.0)).softmax(-1)[0]
    entropy = -(probabilities * probabilities.log()).sum()
    assert entropy.item() == pytest.approx(math.log(1 + math.e) - math.e / (1 + math.e), abs=1e-6)


def test_a_fresh_model_stores_the_log_of_its_scale():
    scale = tiny.backbone().model.logit_scale
    assert scale.item() == pytest.approx(2.6593, abs=1e-4)
    assert scale.exp().item() == pytest.approx(14.2857, abs=1e-3)


def test_logits_are_exact_under_autocast_and_from_half_precision():
    generator = torch.Generator().manual_seed(0)
    images, texts = torch.randn(4, 24, generator=generator), torch.randn(5, 24, generator=generator)
    exact = logits(images, texts, torch.tensor(4.6052))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(logits(images, texts, torch.tensor(4.6052)), exact)
    assert logits(images.bfloat16(), texts.bfloat16(), torch.tensor(4.6052)).dtype == torch.float32


def test_the_reference_does_not_follow_the_student():
    model = tiny.backbone().model.train()
    reference, before = frozen_reference(model), model.visual.proj.detach().clone()
    model.visual.proj.data += 1
    assert torch.equal(reference.visual.proj, before)
    assert not reference.training
    assert not any(parameter.requires_grad for parameter in reference.parameters())
    assert model.training
    assert model.visual.proj.requires_grad
