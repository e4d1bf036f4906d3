"""A hosted judge against a real inference server with a real model: `transformers serve`, on loopback."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from PIL import Image
from tiny_vlm import qwen

from ask.datasets.pictures import open_pictures
from ask.elicitation import dense_pairs, elicit
from ask.judges import DIGITS, JudgeError
from ask.judges.hosted import Hosted
from ask.judges.local import Local

N = 6
PROMPT = "How alike are these two in breed? 1-9."
STARTS_WITHIN = 120  # seconds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that always writes one digit, by the pictures, and then ends."""
    folder = qwen(tmp_path_factory.mktemp("model"), digits=40.0)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    ends = [n for word, n in vocabulary.items() if word.strip("Ġ") in list(DIGITS)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends, "do_sample": False}))
    return folder


@pytest.fixture(scope="module")
def url(model):
    pytest.importorskip("fastapi", reason="transformers' server needs transformers[serving]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [
        sys.executable,
        "-c",
        "from transformers.cli.transformers import main; main()",
        "serve",
        str(model),
    ]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [*serve, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    with subprocess.Popen(
        command, env=offline, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/health", server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


def wait_for(address, server):
    for _ in range(STARTS_WITHIN * 2):
        assert server.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(address).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise AssertionError(f"the server did not start within {STARTS_WITHIN} s")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "pictures"
    made.mkdir()
    for row in range(N):
        pixels = np.random.default_rng(row).integers(0, 256, (56, 56, 3), np.uint8)
        Image.fromarray(pixels).save(made / f"{row}.png")
    return made


def hosted(folder, url, model, method):
    pictures, paths = open_pictures(folder), [f"{row}.png" for row in range(N)]
    entry = {
        "model": str(model),
        "base_url": url,
        "key": None,
        "free": True,
        "concurrency": 2,
        "method": method,
    }
    return Hosted("served", entry, "breed", PROMPT, pictures, paths, store=folder.parent / "store")


def pairs_of(folder):
    pictures = open_pictures(folder)
    return dense_pairs([range(N)], [pictures.sha256(f"{row}.png") for row in range(N)])


def test_what_a_served_model_writes_is_what_its_logits_say(folder, url, model):
    pairs = pairs_of(folder)
    found = elicit(hosted(folder, url, model, "parsed"), pairs, store=folder.parent / "store").judgments
    local = Local(
        "eye",
        {"kind": "local", "model": str(model), "dtype": "float32"},
        "breed",
        open_pictures(folder),
        [f"{row}.png" for row in range(N)],
        prompt=PROMPT,
    )
    likeliest = {
        (pair.first, pair.second): reply.text for pair, reply in zip(pairs, local.answer(pairs), strict=True)
    }
    keys = zip(found["first_hash"], found["second_hash"], strict=True)
    assert found["method"].eq("parsed").all() and found["score"].nunique() > 1
    assert found["score"].tolist() == [float(likeliest[key]) for key in keys]


def test_a_server_that_leaves_log_probabilities_out_is_no_expected_judge(folder, url, model):
    with pytest.raises(JudgeError, match="no probabilities of digits came"):
        elicit(hosted(folder, url, model, "expected"), pairs_of(folder), store=folder.parent / "store")
