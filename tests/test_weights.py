import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from ask.clip import load_backbone
from ask.weights import ActivationError, fingerprint, load_weights, save_student

WORDS = [49406, 320, 1125, 539, 2368, 49407]  # "a photo of ..." with its start and end


@pytest.fixture
def student(tmp_path):
    """A backbone as it comes from its file, with the entry that loads it again."""
    save_student(tiny.backbone().model, tmp_path / "student.safetensors", WORDS)
    entry = {"config": tiny.write(tmp_path, "tiny"), "weights": str(tmp_path / "student.safetensors")}
    return load_backbone("student", entry), entry


def test_fingerprint_ignores_the_order_of_the_tensors():
    first, second = torch.ones(2), torch.zeros(3)
    assert fingerprint({"a": first, "b": second}) == fingerprint({"b": second, "a": first})


@pytest.mark.parametrize(
    "changed",
    [
        {"a": torch.tensor([1.0, 2.0, 3.0 + 1e-6])},
        {"b": torch.tensor([1.0, 2.0, 3.0])},
        {"a": torch.tensor([1.0, 2.0, 3.0]).double()},
        {"a": torch.tensor([[1.0, 2.0, 3.0]])},
        {"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.tensor(0.0)},
    ],
)
def test_fingerprint_sees_values_names_types_and_shapes(changed):
    assert fingerprint(changed) != fingerprint({"a": torch.tensor([1.0, 2.0, 3.0])})


def test_fingerprint_takes_half_precision_scalars_and_views():
    whole = torch.arange(6.0).bfloat16().reshape(2, 3)
    assert fingerprint({"a": whole.T, "s": torch.tensor(1.0)}) == fingerprint(
        {"a": whole.T.contiguous(), "s": torch.tensor(1.0)}
    )


def test_a_student_comes_back_with_its_words_and_zeros_elsewhere(student):
    source, loaded = tiny.backbone().model, student[0].model
    table = loaded.token_embedding.weight
    assert torch.equal(table[WORDS], source.token_embedding.weight[WORDS].half().float())
    others = torch.ones(len(table), dtype=torch.bool)
    others[WORDS] = False
    assert not table[others].any()
    assert table.dtype == torch.float32
    assert torch.equal(loaded.logit_scale, source.logit_scale), "a scalar must not lose precision"


def test_a_students_file_is_small_and_the_same_every_time(tmp_path, student):
    save_student(student[0].model, tmp_path / "again.safetensors", reversed(WORDS * 2))
    first, again = (tmp_path / f"{name}.safetensors" for name in ("student", "again"))
    assert first.read_bytes() == again.read_bytes()
    assert load_file(first)["token_rows"].shape == (len(WORDS), 32)
    assert first.stat().st_size < 200_000


def test_a_loaded_student_has_one_fingerprint(student):
    assert load_backbone("student", student[1]).fingerprint == student[0].fingerprint


def test_a_diverged_student_is_not_saved(tmp_path):
    model = tiny.backbone().model
    model.text_projection.data[0, 0] = 1e6
    with pytest.raises(ValueError, match="finite in float16, but text_projection is not"):
        save_student(model, tmp_path / "x.safetensors", WORDS)


def test_a_student_of_the_other_activation_is_refused(tmp_path, student):
    quick = tiny.write(tmp_path, "quick", quick_gelu=True)
    said = r"trained with gelu, but .*quick\.json computes quickgelu; set quick_gelu to false"
    with pytest.raises(ActivationError, match=said):
        load_backbone("student", student[1] | {"config": quick})


def test_a_file_that_does_not_tell_its_activation_needs_one(tmp_path):
    source = tiny.backbone()
    save_file(source.model.state_dict(), tmp_path / "plain.safetensors")
    entry = {"config": tiny.write(tmp_path, "tiny"), "weights": str(tmp_path / "plain.safetensors")}
    with pytest.raises(ActivationError, match=r"plain\.safetensors does not say which activation"):
        load_backbone("plain", entry)
    assert load_backbone("plain", entry | {"activation": "gelu"}).fingerprint == source.fingerprint
    with pytest.raises(ActivationError, match="set quick_gelu to true"):
        load_backbone("plain", entry | {"activation": "quickgelu"})


def test_a_pickle_is_refused(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    with pytest.raises(ValueError, match=r"weights\.pt must be a safetensors file"):
        load_weights(nn.Linear(1, 2), tmp_path / "weights.pt")


def test_a_missing_file_says_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing; run `dvc pull data\.dvc`"):
        load_weights(nn.Linear(1, 2), tmp_path / "none.safetensors")


def test_weights_of_another_model_are_refused(tmp_path, student):
    narrow = tiny.write(tmp_path, "narrow", embed_dim=12)
    with pytest.raises(ValueError, match=r"student\.safetensors does not fit its model: .*visual\.proj"):
        load_backbone("student", student[1] | {"config": narrow})
