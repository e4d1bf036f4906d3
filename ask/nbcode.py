"""The code of notebooks as plain files: python -m ask.nbcode NOTEBOOK... FOLDER.

A stage depends on the extracted code instead of on the notebook, so that editing prose, or saving outputs in
JupyterLab, re-runs nothing.
"""

import json
import sys
from pathlib import Path


def code(notebook: Path) -> str:
    """The code cells of a notebook in order, each below its tags (which decide what papermill replaces)."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    shown = [
        f"# tags: {', '.join(cell['metadata'].get('tags', []))}\n{''.join(cell['source'])}".rstrip()
        for cell in cells
        if cell["cell_type"] == "code"
    ]
    return "\n\n".join(shown) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Write FOLDER/NAME.py for every NOTEBOOK named NAME.ipynb."""
    *notebooks, folder = map(Path, sys.argv[1:] if argv is None else argv)
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in notebooks:
        (folder / f"{notebook.stem}.py").write_text(code(notebook), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
