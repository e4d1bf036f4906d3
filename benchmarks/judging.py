"""How near asking comes to a server's own pace: `python -m benchmarks.judging [judgments] [seconds] [workers]`.

A server in a process of its own answers each request after so many seconds. Printed are the time over the ideal
(judgments x seconds / workers), CPU time per judgment, memory, and how often each pair was asked; the same pairs one
after the other, as a plain loop would ask, take ``workers`` times the ideal.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

from ask.datasets.pictures import open_pictures
from ask.elicitation import dense_pairs, elicit
from ask.judges.hosted import Hosted
from ask.paths import root


def main(judgments: int = 10_000, seconds: float = 0.1, workers: int = 64) -> None:
    """Asks a loopback server and prints what it took."""
    serve = [sys.executable, str(root() / "tests" / "judges" / "server.py"), str(seconds)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server,
    ):
        port = int(server.stdout.readline())
        paths = [f"{row}.png" for row in range(int((2 * judgments) ** 0.5) + 2)]
        for row, path in enumerate(paths):
            noise = np.random.default_rng(row).integers(0, 256, (64, 64, 3), np.uint8)  # 16 kB as a data URL
            Image.fromarray(noise).save(Path(folder, path))
        pictures = open_pictures(folder)
        pairs = dense_pairs([range(len(paths))], [pictures.sha256(path) for path in paths])[:judgments]
        entry = {"model": "vlm", "base_url": f"http://127.0.0.1:{port}/v1", "key": None, "free": True}
        store = Path(folder, "store")
        judge = Hosted("loopback", entry | {"concurrency": workers}, "any", "?", pictures, paths, store=store)
        began, cpu = time.monotonic(), time.process_time()
        elicit(judge, pairs, store=store)
        took, cpu = time.monotonic() - began, time.process_time() - cpu
        counted = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/count"))
        server.kill()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{took:.1f} s, {took / (judgments * seconds / workers):.2f} times the ideal")
    print(f"{1000 * cpu / judgments:.2f} ms of CPU per judgment, {memory:.0f} MB at most")
    print(f"{counted['requests']} requests for {judgments} pairs, trouble: {dict(judge.trouble)}")


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, float, int), sys.argv[1:], strict=False)))
