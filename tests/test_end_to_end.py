"""The whole pipeline in a copy with small numbers: real DVC, papermill, open_clip and peft."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from sources import ROOT

pytestmark = pytest.mark.slow
OTHER = {"kind": "simulated", "noise": 0.35, "order_bias": 0.2, "spread": 0.9, "heaping": 1.2}
SMALL = {
    "judges": {"steady": OTHER},  # than the one whose answers are published, so that it has to be asked
    "elicitation": {"groups": 6, "heldout": 32},
    "training": {"steps": 60, "warmup": 5, "anchor_sample": 16},
}
UP_TO_DATE = "Data and pipelines are up to date."


class Copy:
    """A checkout that commands run in, with this environment's programs and its own code."""

    def __init__(self, folder: Path):
        self.folder = folder
        bin_folder = Path(sys.executable).parent
        self.env = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }

    def run(self, *command: str, within: str = ".", fails: bool = False) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder / within,
            env=self.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode != 0) == fails, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def planned(self) -> set[str]:
        """The stages that `dvc repro` would run now."""
        lines = self.run("dvc", "repro", "--dry").splitlines()
        return {line.split("'")[1] for line in lines if line.startswith("Running stage")}

    def change(self, section: str, **values) -> None:
        yaml = YAML()
        path = self.folder / "params.yaml"
        params = yaml.load(path)
        params[section].update(values)
        yaml.dump(params, path)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Copy:
    made = Copy(tmp_path_factory.mktemp("end to end") / "a clone")
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("results/", ".dvc/bundled/")):
            (made.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, made.folder / name)
    shutil.copytree(ROOT / "data", made.folder / "data")
    (made.folder / "dvc.lock").unlink(missing_ok=True)
    for section, values in SMALL.items():
        made.change(section, **values)
    made.run("git", "init", "--quiet")
    made.run("git", "add", "--all")
    made.run("git", "commit", "--quiet", "--message", "small")
    made.run("dvc", "repro")
    made.run("git", "add", "--all")
    made.run("git", "commit", "--quiet", "--message", "ran")
    return made


def test_everything_is_there_and_nothing_else_is_left_in_the_tree(copy):
    reports = {
        str(path.relative_to(copy.folder / "reports")) for path in (copy.folder / "reports").rglob("*.ipynb")
    }
    assert {f"{topic}.ipynb" for topic in ("training", "geometry", "ablations", "retrieval")} <= reports
    assert {"elicitation/breed.ipynb", "psd/breed.ipynb", "sweep/no-anchor.ipynb"} <= reports
    assert "| " in (copy.folder / "results/ablations/claims.md").read_text(encoding="utf-8")
    assert UP_TO_DATE in copy.run("dvc", "status")
    assert list((copy.folder / "results").rglob(".gitignore")) == []
    assert copy.run("git", "status", "--short") == ""


def test_a_changed_number_reruns_what_depends_on_it_and_nothing_when_it_is_back(copy):
    copy.change("arms", **{"no-anchor": {**_params(copy)["arms"]["no-anchor"], "rank": 4}})
    assert copy.planned() == {"sweep@no-anchor", "ablations"}
    copy.run("git", "checkout", "params.yaml")
    copy.change("training", steps=61)
    arms = {f"sweep@{arm}" for arm in _params(copy)["arms"]}
    assert copy.planned() == {"training", *arms}
    copy.run("dvc", "repro", "--single-item", "training")
    assert copy.planned() == {"geometry", "ablations", "retrieval", *arms}
    copy.run("git", "checkout", "params.yaml")
    said = copy.run("dvc", "repro")
    assert "Running stage" not in said
    assert copy.run("git", "status", "--short") == ""


def test_saved_outputs_and_prose_rerun_no_notebook(copy):
    path = copy.folder / "notebooks" / "03_training.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][0]["source"] = [*notebook["cells"][0]["source"], "\n\nMore prose."]
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "saved"}]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    said = copy.run("dvc", "repro")
    assert [line for line in said.splitlines() if line.startswith("Running stage")] == [
        "Running stage 'code':"
    ]
    copy.run("git", "checkout", ".")
    copy.run("dvc", "repro")


def test_a_forced_run_gives_the_same_bytes_and_asks_the_judge_nothing(copy):
    log = copy.folder / ".cache" / "ask" / "elicitation.log"
    for folder in ("results", "reports"):
        shutil.rmtree(copy.folder / folder / "elicitation")
    before = log.read_text(encoding="utf-8")
    for stage in ("elicitation@breed", "psd@breed", "training"):
        copy.run("dvc", "repro", "--force", "--single-item", stage)
    asked = log.read_text(encoding="utf-8").removeprefix(before).splitlines()
    assert len(asked) == 3 and all(" 0 asked" in line for line in asked)
    copy.run("dvc", "repro")
    assert copy.run("git", "status", "--short") == ""


def test_a_notebook_run_by_hand_from_its_own_folder_gives_the_pipelines_numbers(copy):
    told = copy.folder / "results" / "sweep" / "colour" / "metrics.json"
    before = told.read_bytes()
    told.unlink()
    copy.run("papermill", "03_training.ipynb", "../out.ipynb", "-p", "arm", "colour", within="notebooks")
    assert told.read_bytes() == before
    (copy.folder / "out.ipynb").unlink()


def test_a_failing_cell_ends_the_run_with_one_line_and_keeps_the_notebook(copy):
    path = copy.folder / "notebooks" / "06_retrieval.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    last = notebook["cells"][-1] | {"cell_type": "code", "source": "assert 1 == 2, 'one is not two'"}
    notebook["cells"].append(last | {"id": "failing", "outputs": [], "execution_count": None})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    said = copy.run("dvc", "repro", fails=True)
    lines = [line for line in said.splitlines() if "AssertionError" in line]
    assert len(lines) == 1
    assert lines[0].startswith("notebooks/06_retrieval.ipynb failed: cell In[")
    assert "AssertionError: one is not two (half-run notebook: reports/failed/retrieval.ipynb)" in lines[0]
    assert "Traceback" not in said
    assert (copy.folder / "reports" / "failed" / "retrieval.ipynb").is_file()


def _params(copy: Copy) -> dict:
    return YAML(typ="safe").load(copy.folder / "params.yaml")
