"""What the tests of notebooks and pipeline read: code cells, imports, the params that code asks for."""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> list[dict]:
    """The cells of a notebook, each with its source as one string."""
    read = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in read]


def code(notebook: Path) -> str:
    """The code of a notebook, without IPython's magics."""
    lines = [c["source"] for c in cells(notebook) if c["cell_type"] == "code"]
    return "\n".join(line for text in lines for line in text.splitlines() if not line.startswith(("%", "!")))


def imported(source: str, package: Path = ROOT / "ask") -> set[Path]:
    """Every file of `package` that running `source` reads: modules, their imports, data beside them."""
    found: set[Path] = set()
    todo = list(_modules(source))
    while todo:
        module = todo.pop()
        for path in _files(module, package) - found:
            found.add(path)
            if path.suffix == ".py":
                text = path.read_text(encoding="utf-8")
                todo += _modules(text)
                found |= {beside for name in _strings(text) for beside in _data(path, name)}
    return found


def params_read(source: str) -> set[str]:
    """The keys that `source` gives to `get`, and the catalogues it gives to `resolve`; ``*`` is any name."""
    keys = set()
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        owner = getattr(call.func, "value", None)
        if name == "get" and (owner is None or getattr(owner, "id", "") == "params"):
            keys |= {_pattern(call.args[0])}
        if name == "resolve":
            keys |= {f"{call.args[2].value if len(call.args) > 2 else 'arms'}.*"}
    return keys - {""}


def _modules(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "ask"}


def _files(module: str, package: Path) -> set[Path]:
    """The module's file and its packages' ``__init__``; that of `ask` itself re-exports nothing."""
    parts = module.split(".")[1:]
    folders = [package.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    paths = {folder / "__init__.py" for folder in folders} | {folder.with_suffix(".py") for folder in folders}
    return {path for path in paths if path.is_file()}


def _strings(source: str) -> set[str]:
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and len(value) < 60}


def _data(module: Path, name: str) -> set[Path]:
    """The data file that a string in a module stands for, by its name or as the suffix instead of ``.py``."""
    named = {module.with_suffix(name)} if re.fullmatch(r"\.\w+", name) else {module.parent / name}
    return {path for path in named if path.suffix in (".csv", ".json") and path.is_file()}


def _pattern(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
    return ""
