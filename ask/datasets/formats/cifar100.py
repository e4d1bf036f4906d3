"""CIFAR-100: one pickle of Python 2 per part; classes are the fine ones."""

from pathlib import Path

from ask.datasets.formats.cifar import read_batches
from ask.datasets.source import Source

BATCHES = {"train": ["train"], "test": ["test"]}


def read(root: Path) -> Source:
    """Reads both parts; a picture's path is its batch and its place in it."""
    return read_batches("cifar100", root, "meta", BATCHES, labels="fine_labels", names="fine_label_names")
