"""Where and how precisely: names are checked, and every choice reaches what it names."""

import pytest
import torch

from ask.compute import Compute, best_device
from tests import tiny


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert best_device() == torch.device("cpu")


@pytest.mark.parametrize("wanted", ["gpu", "cuda:77"])
def test_a_device_that_is_not_there_is_named(wanted):
    with pytest.raises(ValueError, match=rf"but '{wanted}' is not to be had here"):
        best_device(wanted)


@pytest.mark.parametrize("change", [{"precision": "float16"}, {"matmul_precision": "low"}])
def test_an_unknown_name_lists_the_known(change):
    with pytest.raises(ValueError, match=r"must be one of .*, but is"):
        Compute(**change)


def test_towers_are_float32_on_a_processor_and_bfloat16_on_a_gpu():
    assert Compute().towers(torch.device("cpu")) == "float32"
    assert Compute().towers(torch.device("cuda")) == "bfloat16"
    assert Compute(precision="float32").towers(torch.device("cuda")) == "float32"


def test_the_precision_of_products_is_torchs_again_afterwards():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError), Compute(matmul_precision="medium").matmul():
        assert torch.get_float32_matmul_precision() == "medium"
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before


def test_checkpointing_reaches_both_towers():
    model = Compute(checkpointing=True).prepared(tiny.backbone().model)
    assert model.transformer.grad_checkpointing
    assert model.visual.transformer.grad_checkpointing
    Compute().prepared(model)
    assert not model.visual.transformer.grad_checkpointing


def test_a_tower_runs_in_the_chosen_precision():
    def product(x):
        return x @ x

    x, cpu = torch.ones(2, 2), torch.device("cpu")
    assert Compute(precision="bfloat16").tower(product, cpu)(x).dtype == torch.bfloat16
    assert Compute().tower(product, cpu)(x).dtype == torch.float32
