"""Pre-training on a tiny model and a handful of pictures: it repeats, resumes, and stores only what captions use."""

from dataclasses import replace

import numpy as np
import open_clip
import pytest
import torch

from ask import pretrain
from ask.datasets import factors
from tests import tiny

CONFIG = {**tiny.PLAIN, "text_cfg": tiny.TEXT | {"context_length": 32}}
RECIPE = pretrain.Pretraining(
    pictures=64,
    steps=6,
    batch=8,
    captions=4,
    learning_rate=1e-3,
    muon_rate=0.01,
    weight_decay=0.05,
    warmup=2,
    decay=3,
    hard=0.5,
    easy=2,
    seed=0,
)


@pytest.fixture(autouse=True)
def few_pictures(monkeypatch, tmp_path):
    """Noise instead of drawings, and a store of its own."""
    monkeypatch.setattr(pretrain, "rendered", _noise)
    monkeypatch.setenv("ASK_STORE", str(tmp_path))


def test_the_same_recipe_gives_the_same_weights(monkeypatch, tmp_path):
    first, ids = pretrain.pretrain(RECIPE, CONFIG)
    monkeypatch.setenv("ASK_STORE", str(tmp_path / "other"))
    second, _ = pretrain.pretrain(RECIPE, CONFIG)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert 50 < len(ids) < 200


def test_an_interrupted_run_continues_to_the_same_weights(monkeypatch, tmp_path):
    monkeypatch.setattr(pretrain, "_KEEP_EVERY", 2)
    contrastive = pretrain.contrastive
    whole, _ = pretrain.pretrain(RECIPE, CONFIG)
    monkeypatch.setenv("ASK_STORE", str(tmp_path / "other"))
    monkeypatch.setattr(pretrain, "contrastive", _failing_at(4, contrastive))
    with pytest.raises(KeyboardInterrupt):
        pretrain.pretrain(RECIPE, CONFIG)
    monkeypatch.setattr(pretrain, "contrastive", contrastive)
    resumed, _ = pretrain.pretrain(RECIPE, CONFIG)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


def _noise(n, seed):
    rng = np.random.default_rng(seed)
    frame = factors.species(rng, n).join(factors.views(rng, n))
    return frame, torch.from_numpy(rng.integers(0, 255, (n, 3, 32, 32), np.uint8))


def _failing_at(call, function):
    calls = []

    def wrapped(*arguments):
        calls.append(1)
        if len(calls) > call:
            raise KeyboardInterrupt
        return function(*arguments)

    return wrapped


def test_rows_that_no_caption_uses_are_zero():
    model, ids = pretrain.pretrain(RECIPE, CONFIG)
    used = torch.zeros(49408, dtype=torch.bool)
    used[ids] = True
    rows = model.token_embedding.weight.abs().sum(1)
    assert (rows[used] > 0).all() and (rows[~used] == 0).all()


def test_the_vocabulary_covers_every_name_and_caption():
    rng = np.random.default_rng(5)
    rows = list(factors.species(rng, 3000).join(factors.views(rng, 3000)).itertuples())
    tokenizer = open_clip.SimpleTokenizer(context_length=32)
    ids = set(pretrain.vocabulary(tokenizer, rows, 0).tolist())
    other = list(factors.species(rng, 300).join(factors.views(rng, 300)).itertuples())
    said = [factors.name(row) for row in other] + [factors.caption(row, rng) for row in other]
    assert set(tokenizer(said).flatten().tolist()) <= ids


def test_hard_batches_start_after_the_easy_ones():
    cells = [np.arange(8)]
    recipe = replace(RECIPE, hard=1.0, easy=10, pictures=64)
    early = pretrain._batch(cells, np.random.default_rng(0), 5, recipe)
    late = pretrain._batch(cells, np.random.default_rng(0), 30, recipe)
    assert early.max() >= 8 > late.max()


def test_the_rate_warms_up_and_decays_to_nothing():
    recipe = replace(RECIPE, steps=100, warmup=10, decay=20)
    rates = [pretrain._schedule(step, recipe) for step in (0, 9, 50, 80, 90, 99)]
    assert rates == [0.1, 1.0, 1.0, 1.0, 0.5, 0.05]


def test_the_loss_of_perfect_pairs_is_small_and_of_wrong_ones_large():
    right = pretrain.contrastive(torch.eye(4), torch.eye(4), torch.tensor(20.0))
    wrong = pretrain.contrastive(torch.eye(4), torch.eye(4).roll(1, 0), torch.tensor(20.0))
    assert right < 1e-6 < 15 < wrong
