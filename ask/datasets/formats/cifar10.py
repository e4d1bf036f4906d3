"""CIFAR-10: pickles of Python 2 with 10,000 pictures each."""

from pathlib import Path

from ask.datasets.formats.cifar import read_batches
from ask.datasets.source import Source

BATCHES = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}


def read(root: Path) -> Source:
    """Reads both parts; a picture's path is its batch and its place in it."""
    return read_batches("cifar10", root, "batches.meta", BATCHES, labels="labels", names="label_names")
