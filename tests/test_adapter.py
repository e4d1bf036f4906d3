import copy
import hashlib
import json

import pytest
import tiny
import torch
from safetensors.torch import save_file

from ask.adapter import WrongBaseError, load_adapter, save_adapter
from ask.clip import tokenize
from ask.lora import adapt, base_weights, factors
from ask.towers import image_features, text_features
from ask.weights import fingerprint

TOLD = {
    "base": "tiny",
    "link": {"gamma": 0.5, "c": 1.0, "p": 3, "residual": 0.01},
    "judge": "simulated",
    "prompt_hash": "abc",
    "data_hashes": {"targets.npz": "def"},
}


@pytest.fixture
def student(tmp_path):
    """A backbone, a taught copy of its model, and the folder that the copy's adapter was saved in."""
    backbone = tiny.backbone()
    model = tiny.teach(adapt(copy.deepcopy(backbone.model), 4, 8, seed=0))
    save_adapter(model, tmp_path / "adapter", TOLD | {"fingerprint": backbone.fingerprint})
    return backbone, model, tmp_path / "adapter"


def edit(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text()) | changes
    (folder / "manifest.json").write_text(
        json.dumps({key: value for key, value in manifest.items() if value != "gone"})
    )


def test_a_loaded_adapter_computes_the_same_bit_for_bit(student):
    backbone, model, folder = student
    loaded, _ = load_adapter(backbone, folder)
    tokens = tokenize(backbone, ["a photo of a cat"])
    with torch.no_grad():
        assert torch.equal(image_features(loaded, tiny.pixels()), image_features(model, tiny.pixels()))
        assert torch.equal(text_features(loaded, tokens), text_features(model, tokens))
    assert factors(backbone.model) == {}, "the backbone itself stays plain"
    assert fingerprint(base_weights(loaded)) == backbone.fingerprint


def test_the_manifest_tells_everything(student):
    backbone, _, folder = student
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.items() >= TOLD.items()
    assert manifest["fingerprint"] == backbone.fingerprint
    assert manifest["activation"] == "gelu"
    assert manifest["logit_scale"] == pytest.approx(2.6593, abs=1e-4)
    assert manifest["preprocessing"]["size"] == [32, 32]
    assert manifest["preprocessing"]["interpolation"] == "bicubic"
    assert [manifest[key] for key in ("rank", "alpha", "scaling", "towers")] == [
        4,
        8,
        2.0,
        ["visual", "text"],
    ]
    assert manifest["parameters"] == 2 * 8 * 2 * 32 * 4
    assert manifest["packages"].keys() >= {"torch", "open_clip_torch", "peft", "safetensors"}
    assert list(manifest) == sorted(manifest)


def test_the_same_adapter_has_the_same_bytes(student, tmp_path):
    _, model, folder = student
    save_adapter(model, tmp_path / "again", dict(reversed(TOLD.items())))
    for name in ("adapter.safetensors", "manifest.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("towers", [("visual",), ("text",)])
def test_an_adapter_of_one_tower_comes_back_as_one(tmp_path, towers):
    backbone = tiny.backbone()
    save_adapter(tiny.teach(adapt(backbone.model, 2, 4, towers=towers, seed=0)), tmp_path, TOLD)
    loaded, manifest = load_adapter(tiny.backbone(), tmp_path)
    assert manifest["towers"] == list(towers)
    assert factors(loaded).keys() == factors(backbone.model).keys()


@pytest.mark.parametrize(
    ("other", "changes", "shown"),
    [
        (1, {}, "gelu"),
        (0, {"quick_gelu": True}, "quickgelu"),
    ],
)
def test_another_base_is_refused_with_both_names_and_fingerprints(student, other, changes, shown):
    backbone, _, folder = student
    wrong = tiny.backbone(other, **changes)
    said = (
        rf"trained on tiny \(weights {backbone.fingerprint[:16]}, gelu\), "
        rf"but is loaded on tiny \(weights {wrong.fingerprint[:16]}, {shown}\)"
    )
    with pytest.raises(WrongBaseError, match=said):
        load_adapter(wrong, folder)


def test_another_preprocessing_is_another_base(student):
    backbone, _, folder = student
    backbone.model.visual.preprocess_cfg["mean"] = (0.5, 0.5, 0.5)
    with pytest.raises(WrongBaseError):
        load_adapter(backbone, folder)


def test_an_override_is_recorded_and_survives_saving(student, tmp_path):
    backbone, _, folder = student
    loaded, manifest = load_adapter(tiny.backbone(1), folder, allow_other_base=True)
    assert manifest["fingerprint"] == tiny.backbone(1).fingerprint
    assert manifest["trained_on"]["fingerprint"] == backbone.fingerprint
    save_adapter(loaded, tmp_path / "moved", manifest)
    _, again = load_adapter(tiny.backbone(1), tmp_path / "moved")
    assert again["trained_on"]["fingerprint"] == backbone.fingerprint
    _, third = load_adapter(tiny.backbone(2), tmp_path / "moved", allow_other_base=True)
    assert third["trained_on"]["fingerprint"] == backbone.fingerprint, "the first base is the true one"
    assert "trained_on" not in load_adapter(backbone, folder)[1]


def test_a_base_that_training_changed_is_found_out(student, tmp_path):
    backbone, model, _ = student
    model.visual.proj.data[0, 0] += 1e-6
    with pytest.raises(ValueError, match=r"fingerprint is given as .* but the model has"):
        save_adapter(model, tmp_path / "x", TOLD | {"fingerprint": backbone.fingerprint})


@pytest.mark.parametrize("key", TOLD)
def test_a_manifest_without_its_keys_is_not_saved(student, tmp_path, key):
    with pytest.raises(ValueError, match=f"but {key} is missing"):
        save_adapter(student[1], tmp_path / "x", {name: value for name, value in TOLD.items() if name != key})
    assert not (tmp_path / "x").exists()


def test_a_link_has_four_numbers_or_is_none(student, tmp_path):
    with pytest.raises(ValueError, match="must have gamma, c, p, residual, but has gamma"):
        save_adapter(student[1], tmp_path / "x", TOLD | {"link": {"gamma": 1.0}})
    save_adapter(student[1], tmp_path / "x", TOLD | {"link": None})
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_adapter(student[1], tmp_path / "y", TOLD | {"link": TOLD["link"] | {"residual": float("nan")}})


def test_a_diverged_or_missing_adapter_is_not_saved(student, tmp_path):
    _, model, _ = student
    with pytest.raises(ValueError, match="only an adapted model has an adapter"):
        save_adapter(tiny.backbone().model, tmp_path / "x", TOLD)
    next(iter(factors(model).values())).data[0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"factors must be finite, but visual\.\S+ is not"):
        save_adapter(model, tmp_path / "x", TOLD)


def test_a_pickle_is_never_read(student):
    backbone, _, folder = student
    torch.save({}, folder / "adapter.bin")
    (folder / "adapter.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"must hold adapter\.safetensors .* but holds adapter\.bin, manifest\.json"
    ):
        load_adapter(backbone, folder)


def test_files_of_two_adapters_are_not_mixed(student, tmp_path):
    backbone, model, folder = student
    save_adapter(tiny.teach(model, seed=1), tmp_path / "other", TOLD)
    (folder / "adapter.safetensors").write_bytes((tmp_path / "other" / "adapter.safetensors").read_bytes())
    with pytest.raises(ValueError, match="must be the file that its manifest describes"):
        load_adapter(backbone, folder)


def test_a_manifest_with_gaps_is_refused(student):
    edit(student[2], logit_scale="gone", rank="gone")
    with pytest.raises(ValueError, match=r"manifest\.json must have rank, logit_scale, but has not"):
        load_adapter(student[0], student[2])


def test_factors_that_do_not_fit_are_named(student):
    backbone, _, folder = student
    edit(folder, rank=2)
    with pytest.raises(ValueError, match=r"k_proj\.lora_A is \(4, 32\) in .* and \(2, 32\) in the model"):
        load_adapter(backbone, folder)


def test_renamed_factors_are_not_silently_dropped(student):
    backbone, model, folder = student
    renamed = {name.replace("q_proj", "query"): factor.detach() for name, factor in factors(model).items()}
    save_file(renamed, folder / "adapter.safetensors")
    edit(folder, sha256=hashlib.sha256((folder / "adapter.safetensors").read_bytes()).hexdigest())
    with pytest.raises(ValueError, match=r"q_proj\.lora_A is missing in .* and \(4, 32\) in the model"):
        load_adapter(backbone, folder)
