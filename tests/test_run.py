import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from ask import run

PARAMETERS = "rank: int = 4\nwhere = 'here'"
PRINTS = """\
import os, sys
from pathlib import Path
from tqdm import tqdm
from ask.paths import workspace
print(rank + 1, where, os.getpid() > 0, flush=True)
for _ in tqdm(range(3)): print("warned", file=sys.stderr, flush=True)
print(Path.cwd() == Path(os.environ["ASK_ROOT"]), Path.cwd() / "x", object(), workspace().name)
"""
SHOWS = """\
import pandas as pd, matplotlib.pyplot as plt
plt.plot([1, 2])
pd.DataFrame({"a": [1]}).style
"""


def write(project, *cells, name="01_toy"):
    made = [v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), *map(v4.new_code_cell, cells)]
    for number, cell in enumerate(made):
        cell["id"] = str(number)
    nbformat.write(v4.new_notebook(cells=made), project / "notebooks" / f"{name}.ipynb")
    return f"notebooks/{name}.ipynb"


def started(*arguments):
    command = [sys.executable, "-m", "ask.run", *arguments]
    # the project under test has no copy of the package, so it is found where this test finds it
    env = {**run.os.environ, "PYTHONPATH": str(Path(run.__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, env=env)


def printed(path):
    cells = nbformat.read(path, as_version=4).cells
    return {o.name: o.text for cell in cells if cell.cell_type == "code" for o in cell.outputs if "name" in o}


def test_the_same_inputs_give_the_same_bytes(project):
    name = write(project, PRINTS, SHOWS)
    copies = []
    for out in ("reports/toy.ipynb", "reports/deep/er/toy.ipynb"):
        done = started(name, out, "-p", "rank", "7")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert re.fullmatch(rf"{out} \d+\.\d s", done.stderr.splitlines()[-1])
        assert "warned" in done.stderr and "3/3" in done.stderr, "progress is shown while the notebook runs"
        copies.append((project / out).read_bytes())
    assert copies[0] == copies[1]
    assert printed(project / "reports" / "toy.ipynb") == {
        "stdout": f"8 here True\nTrue x <object object at 0x…> {project.name}\n",
        "stderr": "warned\nwarned\nwarned\n",
    }
    recorded = json.loads(copies[0])["metadata"]["ask"]
    assert recorded == {"notebook": name, "parameters": {"rank": 7}}
    assert str(project) not in copies[0].decode()


def test_a_failing_cell_ends_in_one_line_and_keeps_the_notebook(project):
    name = write(project, "print(rank)", "raise ValueError('first line\\nsecond line')")
    done = started("--workspace", "runs/mine", name, "reports/toy.ipynb")
    assert done.returncode == 1
    assert done.stderr == (
        "notebooks/01_toy.ipynb failed: cell In[3]: ValueError: first line second line "
        "(half-run notebook: runs/mine/reports/failed/toy.ipynb)\n"
    )
    assert printed(project / "runs/mine/reports/failed/toy.ipynb")["stdout"] == "4\n"
    assert not (project / "runs/mine/reports/toy.ipynb").exists()


def test_a_workspace_takes_the_reports_and_is_known_to_the_notebook(project):
    name = write(project, "from ask.paths import results\nresults().mkdir(parents=True)")
    done = started("--workspace", "runs/mine", name, "reports/toy.ipynb")
    assert done.returncode == 0, done.stderr
    assert (project / "runs/mine/reports/toy.ipynb").is_file() and (project / "runs/mine/results").is_dir()
    assert not (project / "results").exists() and not (project / "reports").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", "007"),
        ("7", 7),
        ("1.0e-3", 0.001),
        ("true", True),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ("a-b", "a-b"),
    ],
)
def test_values_are_json_or_else_text(text, value):
    assert run._value(text) == value


def test_a_parameter_that_the_notebook_lacks_is_refused(project):
    with pytest.raises(run.RunError) as error:
        run.execute(write(project), "reports/x.ipynb", {"rnak": 3, "rank": 4})
    assert str(error.value) == "notebooks/01_toy.ipynb has no parameter rnak; it has rank, where"


def test_a_notebook_without_its_parameters_cell_is_refused(project):
    notebook = v4.new_notebook(cells=[v4.new_code_cell("rank = 4")])
    with pytest.raises(run.RunError) as error:
        run.assigned(notebook, "01_toy.ipynb")
    assert str(error.value) == "01_toy.ipynb must have one cell tagged 'parameters', but it has 0; tag one"


def test_a_missing_notebook_is_refused(project):
    with pytest.raises(run.RunError) as error:
        run.execute("notebooks/09_none.ipynb", "reports/x.ipynb", {})
    assert str(error.value).startswith("notebooks/09_none.ipynb is no notebook below ")


def stream(name, text):
    return v4.new_output("stream", name=name, text=text)


def test_printed_text_does_not_depend_on_where_it_was_cut(project):
    figure = v4.new_output("display_data", {"image/png": "x", "text/plain": "a figure"})
    pieces = [
        stream("stderr", "e"),
        stream("stdout", "a"),
        stream("stdout", "b"),
        figure,
        stream("stdout", "c"),
    ]
    whole = [stream("stdout", "ab"), stream("stderr", "e"), figure, stream("stdout", "c")]
    assert run._gathered(pieces) == whole


def test_a_live_widget_is_left_out(project):
    widget = v4.new_output(
        "display_data", {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "w"}
    )
    assert run._gathered([widget]) == []
