import json

import pytest

from ask.params import ParamError, get, load, resolve


def refusal(call, *args, **named):
    with pytest.raises(ParamError) as error:
        call(*args, **named)
    return str(error.value)


def test_a_value_arrives_as_the_kind_that_is_asked_for(project):
    assert get("training.rank", int) == 8
    assert get("training.learning_rate", float) == 0.0015
    assert get("training.rank", float) == 8.0 and isinstance(get("training.rank", float), float)
    assert get("training.projected", bool) is True
    assert get("training.targets", str) == "breed"
    assert json.dumps([get("training.some", list), get("targets.colour", dict)]) == '[[1, 2], {"rank": 2}]'


def test_a_value_of_another_kind_is_refused_by_name(project):
    assert refusal(get, "training.quoted", float) == (
        "training.quoted must be a number, but params.yaml has the string '1e-4'; write 1.0e-4"
    )
    assert refusal(get, "training.learning_rate", int) == (
        "training.learning_rate must be an integer, but params.yaml has the number 0.0015; write an integer"
    )
    assert "must be an integer, but params.yaml has the boolean true" in refusal(
        get, "training.projected", int
    )
    assert "must be a list, but params.yaml has the mapping" in refusal(get, "training", list)


def test_a_missing_value_is_refused_with_what_there_is(project):
    (project / "params.yaml").write_text("training: {rank: 8, none: null}")
    assert refusal(get, "training.rnak", int) == "params.yaml has no training.rnak; training has rank, none"
    assert refusal(get, "sweep.rank", int) == "params.yaml has no sweep.rank; the file has training"
    assert (
        refusal(get, "training.rank.deep", int)
        == "params.yaml has no training.rank.deep; training.rank has no keys"
    )
    assert "has the value null; write a string" in refusal(get, "training.none", str)


def recipe(arm, **given):
    flat = {"rank": get("training.rank", int), "learning_rate": get("training.learning_rate", float)}
    flat["projected"] = get("training.projected", bool)
    return resolve("training", arm, **{**flat, **given})


def test_the_sections_own_arm_is_the_section(project):
    assert recipe("ask") == {"rank": 8, "learning_rate": 0.0015, "projected": True}


def test_an_arm_changes_what_its_entry_says(project):
    assert recipe("hot") == {"rank": 8, "learning_rate": 0.01, "projected": True}
    assert recipe("flat")["projected"] is False


def test_a_value_set_from_outside_wins_even_if_it_repeats_the_section(project):
    assert recipe("hot", learning_rate=0.0015)["learning_rate"] == 0.0015
    assert recipe("hot", rank=4)["rank"] == 4


def test_a_recipe_holds_plain_values(project):
    assert [type(value) for value in recipe("hot").values()] == [int, float, bool]


def test_another_catalogue_resolves_alike(project):
    rank = get("training.rank", int)
    assert resolve("training", "breed", "targets", rank=rank) == {"rank": 8}
    assert resolve("training", "colour", "targets", rank=rank) == {"rank": 2}


def test_an_unknown_arm_is_refused_unless_every_value_is_given(project):
    assert refusal(recipe, "cold") == "arms of params.yaml has no 'cold'; known: ask, hot, flat, stray"
    assert resolve("training", "cold", rank=2) == {"rank": 2}


def test_an_arm_with_a_key_that_its_section_lacks_is_refused(project):
    assert refusal(recipe, "stray") == "arms.stray sets rnak, but section training lacks it; add it there"


DVC = """\
stages:
  train: {cmd: x, params: [seed, training.rank, "arms.${item.arm}"]}
  sweep: {foreach: "${arms}", do: {cmd: x, params: ["arms.${key}", training]}}
"""


def test_under_dvc_only_declared_keys_are_read(project, monkeypatch):
    (project / "dvc.yaml").write_text(DVC)
    monkeypatch.setenv("DVC_STAGE", "train")
    assert get("training.rank", int) == 8 and get("arms.hot", dict)
    assert refusal(get, "training.some", list) == (
        "stage train reads training.some, which its params in dvc.yaml do not list; add it there"
    )
    assert "reads arms," in refusal(get, "arms", dict)
    monkeypatch.setenv("DVC_STAGE", "dvc.yaml:sweep@hot")
    assert recipe("hot")["learning_rate"] == 0.01
    assert "reads seed," in refusal(get, "seed", int)


def test_a_profiles_stage_declares_the_roots_params_by_file(project, monkeypatch):
    profile = project / "profiles" / "claims"
    profile.mkdir(parents=True)
    listed = "params: [other, {../../params.yaml: [training]}]"
    (profile / "dvc.yaml").write_text(f"stages: {{train: {{cmd: x, {listed}}}}}")
    monkeypatch.setenv("DVC_STAGE", "train@0")
    monkeypatch.setenv("DVC_ROOT", str(profile))
    assert get("training.rank", int) == 8
    assert "reads seed," in refusal(get, "seed", int)
    assert "reads other," in refusal(get, "other", int)


def test_a_profile_holds_only_what_differs(project, monkeypatch):
    (project / "profile.yaml").write_text("training: {rank: 32}\narms: {cold: {projected: false}}\nseed: 7\n")
    monkeypatch.setenv("ASK_PARAMS", "profile.yaml")
    assert get("training.rank", int) == 32 and get("training.learning_rate", float) == 1.5e-3
    assert get("seed", int) == 7 and set(load()["arms"]) == {"hot", "flat", "stray", "cold"}
    monkeypatch.setenv("ASK_PARAMS", "gone.yaml")
    with pytest.raises(ParamError, match=r"there is no .*gone\.yaml; correct ASK_PARAMS"):
        load()
