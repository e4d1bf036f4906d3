"""Describable Textures: ``images/<class>/<class>_NNNN.jpg`` in ten partitions, of which the first is the usual one.

Its test part (1,880 pictures) is not that of CoOp's split (1,692).
"""

from pathlib import Path

from ask.datasets.formats.coop import add_split
from ask.datasets.source import LayoutError, Source, class_folders, locate, located

NAME = "dtd"


def read(root: Path, partition: int = 1) -> Source:
    """Reads one partition; ``joint`` holds all words that people used for a picture, where that was published."""
    labels = locate(NAME, root, f"labels/train{partition}.txt").parent
    images = locate(NAME, root, "images/*/*_0001.jpg", "images/*/*.jpg").parent.parent
    table = class_folders(root, images)
    classes = tuple(sorted(set(table["folder"])))
    table["index"] = table["folder"].map({name: index for index, name in enumerate(classes)})
    table["label"] = table.pop("folder")
    key = table["path"].map(lambda path: "/".join(path.split("/")[-2:]))
    table["part"] = key.map(_parts(labels, partition)).fillna("")
    if (file := labels / "labels_joint_anno.txt").is_file():
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
        table["joint"] = key.map({line[0]: " ".join(line[1:]) for line in lines if line}).fillna("")
    split = located(root, "split_zhou_DescribableTextures.json")
    table = add_split(table, split, lambda path: "/".join(path.split("/")[-2:]))
    return Source(NAME, root, table, classes)


def _parts(labels: Path, partition: int) -> dict[str, str]:  # class/picture -> part
    parts = {}
    for part in ("train", "val", "test"):
        for picture in (labels / f"{part}{partition}.txt").read_text(encoding="utf-8").split():
            if picture in parts:
                raise LayoutError(
                    f"{labels} has {picture} in two parts of partition {partition}; fetch it again"
                )
            parts[picture] = part
    return parts
