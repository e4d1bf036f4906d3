"""The pipeline's text: names, numbers, and that every stage lists what its code reads."""

import fnmatch
import re
from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML
from sources import NOTEBOOKS, ROOT, code, imported, params_read

PIPELINE = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
PARAMS = YAML(typ="safe").load(ROOT / "params.yaml")
PROFILES = sorted(path.parent for path in (ROOT / "profiles").glob("*/dvc.yaml"))
CATALOGUES = ("run", "backbones", "tasks", "judges", "targets", "arms")
TOPICS = ("elicitation", "psd", "training", "geometry", "ablations", "retrieval")
# `code` extracts, `world` has no notebook, `sweep` runs notebook 03 over the arms.
OTHERS = ("code", "world", "sweep")


def body(stage: dict) -> dict:
    return stage.get("do", stage)


def command(stage: dict) -> str:
    said = body(stage)["cmd"]
    return said if isinstance(said, str) else " ; ".join(said)


def notebook_of(stage: dict) -> Path | None:
    found = re.search(r"notebooks/\w+\.ipynb", command(stage))
    return ROOT / found[0] if found and "ask.run" in command(stage) else None


def module_of(stage: dict) -> str | None:
    found = re.search(r"python -m (ask\.[\w.]+)", command(stage))
    return found[1] if found and found[1] != "ask.run" else None


def source_of(stage: dict) -> str:
    notebook = notebook_of(stage)
    return code(notebook) if notebook else f"import {module_of(stage)}"


def pipelines() -> list:
    """Every stage of the root's pipeline and of each profile, with the folder of its dvc.yaml."""
    found = []
    for folder in (ROOT, *PROFILES):
        for name, stage in YAML(typ="safe").load(folder / "dvc.yaml")["stages"].items():
            word = name if folder == ROOT else f"{folder.name}-{name}"
            found.append(pytest.param(folder, stage, id=word))
    return found


def listed_params(folder: Path, stage: dict) -> list[str]:
    keys = []
    for entry in body(stage).get("params", []):
        by_file = entry if isinstance(entry, dict) else {"params.yaml": [entry]}
        for file, names in by_file.items():
            keys += names if (folder / file).resolve() == ROOT / "params.yaml" else []
    return [re.sub(r"\$\{.*?\}", "*", key) for key in keys]


def test_stage_section_notebook_and_results_share_one_word():
    names = {re.sub(r"^\d\d_", "", notebook.stem): notebook for notebook in NOTEBOOKS}
    assert set(TOPICS) | set(OTHERS) == set(PIPELINE)
    assert set(names) == set(TOPICS)
    for topic in TOPICS:
        stage = body(PIPELINE[topic])
        assert notebook_of(stage) == names[topic]
        assert topic in PARAMS and topic in listed_params(ROOT, stage)
    for name, stage in PIPELINE.items():
        outs = [next(iter(out)) if isinstance(out, dict) else out for out in body(stage).get("outs", [])]
        metrics = [next(iter(out)) for out in body(stage).get("metrics", [])]
        for out in outs + metrics:
            assert re.match(rf"(results|reports)/{name}(/|\.ipynb$)", out), f"stage {name} writes {out}"


def test_notebooks_are_numbered_in_the_order_of_the_stages():
    assert [notebook.stem for notebook in NOTEBOOKS] == [
        f"{i:02d}_{topic}" for i, topic in enumerate(TOPICS, 1)
    ]


def test_both_readers_of_yaml_see_the_same_numbers():
    for path in (ROOT / "params.yaml", *(folder / "params.yaml" for folder in PROFILES)):
        assert yaml.safe_load(path.read_text(encoding="utf-8")) == YAML(typ="safe").load(path)


def test_every_scalar_that_looks_like_a_number_is_one():
    def strings(value):
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from strings(item)
        elif isinstance(value, str):
            yield value

    numeric = [
        text for text in strings(PARAMS) if re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", text, re.IGNORECASE)
    ]
    assert [text for text in numeric if any(map(str.isdigit, text))] == []


def test_names_can_stand_in_a_command_line():
    names = [name for catalogue in CATALOGUES for name in PARAMS[catalogue]]
    names += [name for entry in PARAMS["run"].values() for name in entry]
    names += [
        v for c in ("targets", "arms") for e in PARAMS[c].values() for v in e.values() if isinstance(v, str)
    ]
    assert [name for name in names if not re.fullmatch(r"[a-z0-9.-]+", name)] == []


@pytest.mark.parametrize("topic", ["geometry", "retrieval"])
def test_a_stage_depends_on_the_arms_that_its_section_compares(topic):
    deps = " ".join(PIPELINE[topic]["deps"])
    assert sorted(set(re.findall(r"results/sweep/([\w.-]+)", deps))) == sorted(PARAMS[topic]["arms"])


def test_names_that_refer_to_a_catalogue_are_in_it():
    asked = {(entry["task"], entry["judge"]) for entry in PARAMS["run"]["elicitation"].values()}
    for name, entry in PARAMS["targets"].items():
        assert (entry["task"], entry["judge"]) in asked, (
            f"targets {name} are made of judgments that nobody asks for"
        )
    for name, entry in {**PARAMS["arms"], PARAMS["training"]["arm"]: PARAMS["training"]}.items():
        targets = PARAMS["targets"][entry["targets"]]
        assert (entry["task"], entry["judge"]) == (targets["task"], targets["judge"]), f"arm {name}"
        assert set(entry) <= set(PARAMS["training"]), f"arm {name} sets what section training lacks"
    for task, judge in asked:
        assert task in PARAMS["tasks"] and judge in PARAMS["judges"]


@pytest.mark.parametrize(("folder", "stage"), pipelines())
def test_a_stage_depends_on_every_file_that_its_code_imports(folder, stage):
    listed = [(folder / dep).resolve() for dep in body(stage).get("deps", [])]
    read = imported(source_of(stage))
    missing = [path for path in read if not any(path == dep or dep in path.parents for dep in listed)]
    assert sorted(str(path.relative_to(ROOT)) for path in missing) == []
    ours = [dep for dep in listed if dep.is_relative_to(ROOT / "ask") and dep.suffix == ".py"]
    idle = [dep for dep in ours if dep not in read and dep.parent.name != "formats"]  # readers go by name
    assert sorted(str(path.relative_to(ROOT)) for path in idle) == [], "listed, but not read"


@pytest.mark.parametrize(("folder", "stage"), pipelines())
def test_a_stage_depends_on_its_notebooks_code_and_not_on_the_notebook(folder, stage):
    if notebook := notebook_of(stage):
        listed = [(folder / dep).resolve() for dep in body(stage)["deps"]]
        assert ROOT / "results" / "code" / f"{notebook.stem}.py" in listed
        assert notebook not in listed


@pytest.mark.parametrize(("folder", "stage"), pipelines())
def test_a_stage_lists_every_param_that_its_code_reads(folder, stage):
    listed = listed_params(folder, stage)
    notebook = notebook_of(stage)
    read = params_read(code(notebook) if notebook else _module_text(module_of(stage)))
    if notebook == ROOT / "notebooks" / "03_training.ipynb" and "-p arm " not in command(stage):
        read.discard("arms.*")  # the section's own arm has no entry
    if notebook and "arms.*" in read:  # the arms that a notebook compares are named in its section
        compared = PARAMS[notebook.stem[3:]].get("arms", ["*"])
        read = read - {"arms.*"} | {f"arms.{arm}" for arm in compared}
    covered = {key for key in read for known in listed if key == known or fnmatch.fnmatch(key, f"{known}.*")}
    assert sorted(read - covered) == []


def _module_text(module: str) -> str:
    return (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def test_the_claims_are_measured_on_what_the_default_pipeline_runs():
    folder = ROOT / "profiles" / "claims"
    chosen = YAML(typ="safe").load(folder / "params.yaml")
    assert sorted(chosen["arms"]) == sorted(PARAMS["arms"])
    assert sorted(chosen["targets"]) == sorted(PARAMS["targets"])
    text = (folder / "dvc.yaml").read_text(encoding="utf-8")
    asked = re.findall(r"reports/elicitation/(\S+)\.ipynb -p seed \S+ -p task (\S+) -p judge (\S+)", text)
    assert {name: {"task": task, "judge": judge} for name, task, judge in asked} == PARAMS["run"][
        "elicitation"
    ]


def test_only_small_truths_and_figures_are_kept_in_git():
    kept = [out for stage in PIPELINE.values() for out in _kept_in_git(body(stage))]
    assert kept and all(re.search(r"/(metrics\.json|figures|[\w-]+\.(csv|md|png))$", out) for out in kept), (
        kept
    )


def _kept_in_git(stage: dict) -> list[str]:
    outs = [out for out in [*stage.get("outs", []), *stage.get("metrics", [])] if isinstance(out, dict)]
    return [path for out in outs for path, options in out.items() if options.get("cache") is False]


@pytest.mark.parametrize(("folder", "stage"), pipelines())
def test_files_end_their_lines_as_git_checks_them_out(folder, stage):
    # DVC hashes bytes: a file with CRLF has another hash here than in a fresh clone, where Git wrote LF
    assert [path.name for path in imported(source_of(stage)) if b"\r\n" in path.read_bytes()] == []


def test_every_module_that_is_run_by_name_runs():
    texts = [ROOT / "README.md", ROOT / "Makefile", ROOT / "dvc.yaml", *(f / "dvc.yaml" for f in PROFILES)]
    named = {
        found
        for text in texts
        for found in re.findall(r"python -m ((?:ask|benchmarks)[\w.]*)", text.read_text())
    }
    files = [ROOT / (name.replace(".", "/") + ".py") for name in sorted(named)]
    files = [file if file.is_file() else file.with_suffix("") / "__main__.py" for file in files]
    assert len(files) > 8
    silent = [
        str(file.relative_to(ROOT)) for file in files if '__name__ == "__main__"' not in file.read_text()
    ]
    assert silent == [], "does nothing when it is run"
