"""A run that is killed again and again, by a signal that nothing can catch."""

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ask.datasets.pictures import open_pictures
from ask.elicitation import dense_pairs, elicit
from ask.judges.hosted import PROBED, Hosted

KILLS = int(os.environ.get("ASK_KILLS", "6"))
WORKERS, N = 16, 60
HERE = Path(__file__).parent

VICTIM = """
import sys
sys.path.insert(0, sys.argv[3])
from test_kills import ask
print("asking", flush=True)
ask(sys.argv[1], sys.argv[2])
"""


def ask(folder, url):
    """Scores all pairs of the folder's pictures."""
    pictures, paths = open_pictures(folder), [f"{row}.png" for row in range(N)]
    pairs = dense_pairs([range(N)], [pictures.sha256(path) for path in paths])
    entry = {"model": "vlm", "base_url": url, "key": None, "free": True, "concurrency": WORKERS}
    store = Path(folder, "store")
    return elicit(Hosted("served", entry, "breed", "?", pictures, paths, store=store), pairs, store=store)


@pytest.mark.slow
def test_nothing_that_was_answered_is_asked_again_however_often_the_run_is_killed(tmp_path):
    for row in range(N):
        noise = np.random.default_rng(row).integers(0, 256, (32, 32, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{row}.png")
    delay = str(0.02 * max(1, KILLS / 10))
    serve = [sys.executable, str(HERE / "server.py"), delay]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        command = [sys.executable, "-c", VICTIM, str(tmp_path), f"{url}/v1", str(HERE)]
        moments, killed = random.Random(0), 0
        while killed < KILLS:
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
                assert victim.stdout.readline() == "asking\n"
                time.sleep(moments.uniform(0.05, 0.6))
                if victim.poll() is not None:
                    break
                victim.kill()
                killed += 1
        before = stored(tmp_path)
        found = ask(tmp_path, f"{url}/v1")
        counted = json.load(urllib.request.urlopen(f"{url}/count"))
        server.kill()
    pairs = N * (N - 1) // 2
    assert len(found.judgments) == counted["distinct"] == pairs
    assert counted["requests"] <= pairs + WORKERS * killed
    assert before <= stored(tmp_path)
    assert found.reused >= len(before) - PROBED  # a probe's answers are stored twice
    assert found.asked + found.reused == pairs
    assert killed >= min(KILLS, 3)


def stored(folder):
    """The keys of all complete lines of all journals."""
    lines = [
        line for shard in folder.glob("store/**/*.jsonl") for line in shard.read_bytes().split(b"\n")[:-1]
    ]
    keys = [json.loads(line).get("key") for line in lines]
    answered = [key for key in keys if key]
    assert len(answered) == len(set(answered)), "something was asked again although its answer was stored"
    return set(answered)
