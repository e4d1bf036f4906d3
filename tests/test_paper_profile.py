"""The paper's scale is a file of params over the root's: its tasks, prompts and recipe."""

import pytest
from ruamel.yaml import YAML
from sources import ROOT

from ask.baseline import PUBLISHED
from ask.datasets.domains import DOMAINS
from ask.params import get, load


@pytest.fixture(autouse=True)
def profile(monkeypatch):
    monkeypatch.setenv("ASK_ROOT", str(ROOT))
    monkeypatch.setenv("ASK_PARAMS", "profiles/paper/params.yaml")


def paper_tasks():
    return {name: task for name, task in load()["tasks"].items() if task["dataset"] == "paper"}


def test_there_are_fifteen_tasks_with_fourteen_prompts():
    prompts = [task["prompt"] for task in paper_tasks().values()]
    assert len(prompts) == 15 and len(set(prompts)) == 14
    assert all("single digit from 1" in one and one.endswith("Write the digit only.") for one in prompts)
    assert load()["tasks"]["cars-colour"]["prompt"] == load()["tasks"]["dogs-colour"]["prompt"]


def test_every_task_names_its_world_and_the_root_of_its_pictures():
    for task in paper_tasks().values():
        assert task["world"] == f"profiles/paper/worlds/{task['domain']}" and task["pictures"] == "$ASK_DATA"
    assert {task["domain"] for task in paper_tasks().values()} == {*DOMAINS, "birds"}


def test_the_recipe_is_the_papers():
    assert get("training.rank", int) == 32 and get("training.alpha", float) == 64
    assert get("training.learning_rate", float) == 1e-5 and get("training.steps", int) == 3000
    assert get("training.warmup", int) == 200 and get("training.anchor_weight", float) == 0.2
    assert get("training.weight_decay", float) == 1e-4 and get("elicitation.groups", int) == 93


def test_the_miniatures_own_tasks_are_still_there():
    assert get("tasks.critters-breed", dict)["dataset"] == "miniature"
    assert {"vit-b-32", "vit-b-16", "vit-l-14", "vit-l-14-336"} <= set(load()["backbones"])


def test_every_run_names_a_task_a_backbone_and_a_judge_and_what_it_may_cost():
    for name, run in load()["runs"].items():
        assert set(run) == {"task", "backbone", "judge", "budget"}, name
        assert (
            run["task"] in paper_tasks() and run["backbone"] in PUBLISHED and run["judge"] in load()["judges"]
        )


def test_dvc_reads_the_pipeline_and_every_param_that_it_lists():
    listed = YAML(typ="safe").load(ROOT / "profiles" / "paper" / "dvc.yaml")["stages"]
    for stage in listed.values():
        for entry in stage.get("do", stage).get("params", []):
            for file, keys in entry.items():
                known = YAML(typ="safe").load(ROOT / "profiles" / "paper" / file)
                assert [key for key in keys if "${" not in key and key not in known] == []
