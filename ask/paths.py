"""Where things are: the project's root, the workspace that a run writes to, the store of paid answers.

Nothing here asks for a particular working directory: a notebook opened in ``notebooks/``, a stage run by DVC
and a test started anywhere find the same folders. In reading order: `root`, `project`, `workspace`,
`results`, `reports`, `world`, `data`, `store`, `need`.
"""

import os
from pathlib import Path


def root() -> Path:
    """The project's folder: ``ASK_ROOT``, else the project around the working directory, else this code's."""
    if named := os.environ.get("ASK_ROOT"):
        return Path(named).resolve()
    return project(Path.cwd()) or Path(__file__).resolve().parents[1]


def project(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds ``params.yaml``, ``dvc.yaml`` and ``notebooks/``.

    A profile below ``profiles/`` has the two files but no notebooks of its own: it belongs to the project
    above it.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        if all((folder / name).exists() for name in ("params.yaml", "dvc.yaml", "notebooks")):
            return folder
    return None


def workspace() -> Path:
    """The folder whose ``results/`` and ``reports/`` a run writes: ``ASK_WORKSPACE``, else the root."""
    return root() / os.environ.get("ASK_WORKSPACE", "")


def results(*parts: str) -> Path:
    """A file or folder below the workspace's ``results/``; it need not exist."""
    return workspace().joinpath("results", *parts)


def reports(*parts: str) -> Path:
    """A file or folder below the workspace's ``reports/``, where executed notebooks lie."""
    return workspace().joinpath("reports", *parts)


def world() -> Path:
    """The miniature world's folder; it stays below the root, whatever the workspace."""
    return root() / "results" / "world"


def data(*parts: str) -> Path:
    """A file or folder below ``data/``, which DVC fetches and code only reads."""
    return root().joinpath("data", *parts)


def store() -> Path:
    """Where paid answers are journalled: ``ASK_STORE``, else ``.cache/ask`` in a person's own checkout.

    DVC runs some experiments in a temporary copy; ``DVC_ROOT`` then still names the person's checkout,
    so all of them share one store, and so do the profiles.
    """
    if named := os.environ.get("ASK_STORE"):
        return root() / named
    checkout = os.environ.get("DVC_ROOT")
    return ((checkout and project(Path(checkout))) or root()) / ".cache" / "ask"


def need(path: Path, stage: str) -> Path:
    """`path` itself, if it exists.

    Args:
        path: what the caller is about to read.
        stage: the pipeline stage that makes it; the error names the stage and, if there is one, its notebook.

    Raises:
        FileNotFoundError: with what is missing and what to run first.
    """
    if path.exists():
        return path
    shown = path.relative_to(root()) if path.is_relative_to(root()) else path
    notebooks = sorted((root() / "notebooks").glob(f"[0-9][0-9]_{stage}.ipynb"))
    opened = "".join(f" or open {notebook.stem}" for notebook in notebooks)
    raise FileNotFoundError(f"{shown} is missing; run `dvc repro {stage}`{opened} first")
