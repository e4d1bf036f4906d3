from pathlib import Path

import pytest

from ask import paths


def test_the_root_is_found_from_any_folder_below_it(project, monkeypatch):
    (project / "notebooks" / "deep").mkdir()
    for folder in (project, project / "notebooks", project / "notebooks" / "deep"):
        monkeypatch.chdir(folder)
        assert paths.root() == project


def test_a_profile_belongs_to_the_project_above_it(project, monkeypatch):
    profile = project / "profiles" / "claims"
    profile.mkdir(parents=True)
    for name in ("params.yaml", "dvc.yaml"):
        (profile / name).write_text("")
    monkeypatch.chdir(profile)
    assert paths.root() == project


def test_the_environment_wins(project, tmp_path, monkeypatch):
    monkeypatch.setenv("ASK_ROOT", str(tmp_path))
    assert paths.root() == tmp_path


def test_outside_any_project_the_root_is_where_this_code_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paths.root() == Path(paths.__file__).parents[1]


def test_a_workspace_moves_results_and_reports_but_not_the_world(project, monkeypatch, tmp_path):
    assert paths.results("psd", "breed") == project / "results" / "psd" / "breed"
    monkeypatch.setenv("ASK_WORKSPACE", "runs/mine")
    assert paths.results("psd") == project / "runs" / "mine" / "results" / "psd"
    assert paths.reports() == project / "runs" / "mine" / "reports"
    assert paths.world() == project / "results" / "world"
    assert paths.data("student") == project / "data" / "student"
    monkeypatch.setenv("ASK_WORKSPACE", str(tmp_path / "elsewhere"))
    assert paths.workspace() == tmp_path / "elsewhere"


def test_experiments_and_profiles_share_the_store_of_the_checkout(project, tmp_path, monkeypatch):
    assert paths.store() == project / ".cache" / "ask"
    monkeypatch.setenv("ASK_ROOT", str(tmp_path / "copy"))
    monkeypatch.setenv("DVC_ROOT", str(project / "profiles" / "claims"))
    assert paths.store() == project / ".cache" / "ask"
    monkeypatch.setenv("ASK_STORE", str(tmp_path / "store"))
    assert paths.store() == tmp_path / "store"


def test_what_is_needed_and_there_is_passed_through(project):
    assert paths.need(project / "params.yaml", "world") == project / "params.yaml"


def test_what_is_missing_is_named_with_its_stage_and_its_notebook(project):
    (project / "notebooks" / "02_psd.ipynb").write_text("{}")
    with pytest.raises(FileNotFoundError) as error:
        paths.need(paths.results("psd", "targets.npz"), "psd")
    assert str(error.value) == "results/psd/targets.npz is missing; run `dvc repro psd` or open 02_psd first"
    with pytest.raises(FileNotFoundError) as error:
        paths.need(paths.results("sweep", "hot"), "sweep")
    assert str(error.value) == "results/sweep/hot is missing; run `dvc repro sweep` first"
