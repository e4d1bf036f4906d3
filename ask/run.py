"""Runs a notebook in a batch: python -m ask.run [--workspace DIR] [--params FILE] NOTEBOOK OUT [-p KEY JSON]...

This is papermill with what a pipeline stage needs on top: the project's root as working directory and first
on the kernel's path, values typed as JSON, names checked against the ``parameters`` cell, an executed
notebook without clocks and random ids (the same inputs give the same bytes), one line instead of a traceback
when a cell fails, and the half-run notebook kept in ``reports/failed/``. In reading order: `main`, `execute`,
`assigned`, `normalized`.
"""

import argparse
import ast
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

# nbformat would build some 35 grammars of this optional package, three seconds that nothing here needs.
sys.modules.setdefault("rfc3987_syntax", None)

import nbformat
import papermill
from jupyter_client.manager import KernelManager
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from ask.paths import reports, root, workspace

_PROGRESS_BAR = r"\r[^\r\n\[]*\[[^\]\r\n]*\] *\n?"  # tqdm's; it ends with its clocks in brackets


class RunError(Exception):
    """A notebook could not be run to its end; the message is one line."""


def main(argv: list[str] | None = None) -> int:
    """Run what the command line names and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ask.run", description="Run a notebook as a stage does.")
    parser.add_argument("notebook", help="the notebook, relative to the project's root")
    parser.add_argument("out", help="its executed copy, relative to the workspace")
    parser.add_argument("--workspace", help="folder for results/ and reports/, relative to the root")
    parser.add_argument(
        "--params", help="a profile's params.yaml, laid over the root's, relative to the root"
    )
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("KEY", "JSON"), help="a value")
    given = parser.parse_args(argv)
    _set_environment(given.workspace, given.params)
    started = time.monotonic()
    try:
        execute(given.notebook, given.out, {key: _value(text) for key, text in given.p})
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{given.out} {time.monotonic() - started:.1f} s", file=sys.stderr)
    return 0


def execute(name: str, out: str, parameters: dict[str, Any]) -> None:
    """Run the notebook `name` with `parameters`; write its normalized copy to `out` in the workspace.

    Raises:
        RunError: if the notebook is missing, does not know a parameter, or a cell fails.
    """
    if not (root() / name).is_file():
        raise RunError(f"{name} is no notebook below {root()}; check the path")
    known = assigned(nbformat.read(root() / name, as_version=4), name)
    if unknown := ", ".join(sorted(set(parameters) - known)):
        raise RunError(f"{name} has no parameter {unknown}; it has {', '.join(sorted(known))}")
    kept = re.sub(r"[^\w.-]", "_", out.removeprefix("reports/"))
    running, failed = reports("running", kept), reports("failed", kept)
    running.parent.mkdir(parents=True, exist_ok=True)
    options = {"kernel_name": "python3", "language": "python", "cwd": root(), "progress_bar": False}
    options["extra_arguments"] = ["--log-level=CRITICAL"]  # a kernel that is stopped reports an interrupt
    options["stderr_file"] = sys.stderr  # progress bars and warnings, while they happen
    try:
        papermill.execute_notebook(root() / name, running, parameters, **options)
    except (papermill.PapermillExecutionError, DeadKernelError) as error:
        failed.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(running, failed)
        raise RunError(_failure(name, error, failed)) from error
    executed = normalized(nbformat.read(running, as_version=4), name, parameters)
    (workspace() / out).parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(executed, workspace() / out)
    running.unlink()
    failed.unlink(missing_ok=True)


def assigned(notebook: NotebookNode, name: str) -> set[str]:
    """The parameters of a notebook: the names that its cell tagged ``parameters`` assigns.

    Raises:
        RunError: unless exactly one cell bears the tag; papermill would then keep the notebook's own values.
    """
    tagged = [cell.source for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise RunError(f"{name} must have one cell tagged 'parameters', but it has {len(tagged)}; tag one")
    names = [node for node in ast.walk(ast.parse(tagged[0])) if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def normalized(notebook: NotebookNode, name: str, parameters: dict[str, Any]) -> NotebookNode:
    """`notebook`, changed in place, without what differs between two runs: clocks, random ids, addresses."""
    for key in ("papermill", "widgets"):
        notebook.metadata.pop(key, None)
    notebook.metadata["ask"] = {"notebook": name, "parameters": parameters}
    notebook.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(notebook.cells):
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
        if cell.cell_type == "code":
            cell["outputs"] = [_stable(output, number) for output in _gathered(cell.outputs)]
    return notebook


def _gathered(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Printed text as one output per stream between two figures, since timing decides where it was cut."""
    gathered: list[NotebookNode] = []
    printed: dict[str, NotebookNode] = {}  # what was printed since the last figure, by stream
    for output in outputs:
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
            continue  # a live widget is empty without its kernel
        if output.output_type != "stream":
            gathered += [*_by_name(printed), output]
            printed = {}
        elif output.name in printed:
            printed[output.name]["text"] += output.text
        else:
            printed[output.name] = output
    return gathered + _by_name(printed)


def _by_name(printed: dict[str, NotebookNode]) -> list[NotebookNode]:
    for output in printed.values():
        output["text"] = re.sub(_PROGRESS_BAR, "", output.text)
    return [printed[name] for name in sorted(printed, reverse=True) if printed[name].text]  # stdout first


def _stable(output: NotebookNode, number: int) -> NotebookNode:
    if "text" in output:
        output["text"] = _stable_text(output.text, number)
    for kind, content in output.get("data", {}).items():
        if kind.startswith("text/"):
            output["data"][kind] = _stable_text(content, number)
    return output


def _stable_text(text: str, number: int) -> str:
    text = text.replace(f"{root()}{os.sep}", "").replace(str(root()), ".")
    text = re.sub(r"\S*ipykernel_\d+[/\\]\d+\.py", "<cell>", text)
    text = re.sub(r"\bat 0x[0-9a-f]{6,}", "at 0x…", text)
    return re.sub(r"\bT_[0-9a-f]{5}(?![0-9a-f])", f"T_{number:05d}", text)  # the id of a styled pandas table


def _failure(name: str, error: Exception, failed: Path) -> str:
    what = "its kernel died, which most often means that memory ran out"
    if isinstance(error, papermill.PapermillExecutionError):
        what = f"cell In[{error.exec_count}]: {error.ename}: {error.evalue}"
    shown = failed.relative_to(root()) if failed.is_relative_to(root()) else failed
    return " ".join(f"{name} failed: {what} (half-run notebook: {shown})".split())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _set_environment(chosen: str | None, profile: str | None = None) -> None:
    """What the kernel inherits: where the project is, this environment's own python3, slow progress bars."""
    os.environ["ASK_ROOT"] = str(root())
    if chosen is not None:
        os.environ["ASK_WORKSPACE"] = chosen
    if profile is not None:
        os.environ["ASK_PARAMS"] = profile
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root()), os.environ.get("PYTHONPATH")]))
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ["TQDM_MININTERVAL"] = "5"
    KernelManager.transport_encryption.default_value = "auto"  # or ipykernel warns of each kernel's plain TCP


if __name__ == "__main__":
    sys.exit(main())
