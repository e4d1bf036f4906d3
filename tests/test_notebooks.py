"""The shape of the notebooks, as far as a machine can see it."""

import ast
import re
import statistics
import subprocess
import sys

import nbformat
import pytest
from sources import NOTEBOOKS, cells, code

each = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
ASSIGNMENT = re.compile(r'\w+ = get\("[\w.-]+", (int|float|str|bool|list|dict)\)')
STRIP = ["--extra-keys", "metadata.papermill cell.metadata.papermill metadata.language_info"]


def code_cells(notebook):
    return [cell for cell in cells(notebook) if cell["cell_type"] == "code"]


def functions(notebook):
    return [node for node in ast.walk(ast.parse(code(notebook))) if isinstance(node, ast.FunctionDef)]


@each
def test_it_is_valid_and_runs_in_any_environments_python3(notebook):
    read = nbformat.read(notebook, as_version=4)
    nbformat.validate(read)
    assert read.metadata.kernelspec.name == "python3"


def test_all_are_stripped_as_the_hook_strips_them():
    command = [sys.executable, "-m", "nbstripout", "--verify", *STRIP, *map(str, NOTEBOOKS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}; run pre-commit, or nbstripout as it does"


@each
def test_it_has_twenty_to_forty_cells_and_breathes(notebook):
    kinds = [cell["cell_type"] for cell in cells(notebook)]
    assert 20 <= len(kinds) <= 40
    assert ["code"] * 3 not in [kinds[start : start + 3] for start in range(len(kinds))]
    assert statistics.median(len(cell["source"].splitlines()) for cell in code_cells(notebook)) <= 4


@each
def test_it_opens_with_its_question_and_what_it_reads_and_writes(notebook):
    first, *others = [cell["source"] for cell in cells(notebook) if cell["cell_type"] == "markdown"]
    assert first == cells(notebook)[0]["source"] and first.startswith("# ")
    assert [text for text in others if re.search("^# ", text, re.MULTILINE)] == []
    assert [word for word in ("?", "Reads:", "Writes:") if word not in first] == []


@each
def test_its_links_lead_to_files(notebook):
    prose = "\n".join(cell["source"] for cell in cells(notebook) if cell["cell_type"] == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", prose) if "://" not in link]
    assert links, "the title cell links the previous and the next notebook"
    assert [link for link in links if not (notebook.parent / link).exists()] == []


@each
def test_its_second_code_cell_reads_params_and_nothing_else(notebook):
    tagged = ["parameters" in cell["metadata"].get("tags", []) for cell in code_cells(notebook)]
    assert [position for position, yes in enumerate(tagged) if yes] == [1]
    lines = code_cells(notebook)[1]["source"].splitlines()
    assert [line for line in lines if not ASSIGNMENT.fullmatch(line)] == []
    names = {line.split(" = ")[0] for line in lines}
    assert {"seed", "pictures", "manifest", "columns"} <= names


@each
def test_it_only_imports_in_its_first_code_cell(notebook):
    later = "\n".join(cell["source"] for cell in code_cells(notebook)[1:])
    assert re.findall(r"^\s*(?:import|from) .*", later, re.MULTILINE) == []
    assert "ask" in code_cells(notebook)[0]["source"]


@each
def test_it_has_no_class_no_long_function_and_no_shell(notebook):
    assert [node for node in ast.walk(ast.parse(code(notebook))) if isinstance(node, ast.ClassDef)] == []
    assert [node.name for node in functions(notebook) if node.end_lineno - node.lineno + 1 > 5] == []
    assert [line for line in code(notebook).splitlines() if line.lstrip().startswith("!")] == []
    for word in ("sys.path", "os.chdir", "subprocess", "glob("):
        assert word not in code(notebook)


@each
def test_it_names_no_absolute_path(notebook):
    text = "\n".join(cell["source"] for cell in cells(notebook))
    assert re.findall(r"(?<![\w.])(?:/(?:home|root|tmp|usr|mnt|Users|work)/|[A-Z]:\\)\S*", text) == []
