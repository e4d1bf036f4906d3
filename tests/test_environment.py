"""environment.yml, pyproject.toml, the lock and the Makefile say one thing."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML
from sources import ROOT

MAIN = ["dvc", "jupyterlab", "numpy", "open-clip-torch", "papermill", "peft", "scipy", "seaborn", "torch"]
CONDA = YAML(typ="safe").load(ROOT / "environment.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIP = next(entry["pip"] for entry in CONDA["dependencies"] if isinstance(entry, dict))


def locked():
    """Name -> pinned requirement of every line of the lock."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def test_every_line_of_the_lock_is_one_exact_version():
    assert all(re.fullmatch(r"==[\w.]+", str(r.specifier)) and r.url is None for r in locked().values())


def test_the_lock_fulfils_every_requirement_of_the_package():
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    for requirement in map(Requirement, wanted):
        pinned = str(locked()[canonicalize_name(requirement.name)].specifier).removeprefix("==")
        assert requirement.specifier.contains(pinned), f"{requirement} but the lock has {pinned}"


def test_the_environment_lists_the_main_packages_as_they_are_locked():
    listed = {canonicalize_name(r.name): r for r in map(Requirement, [line for line in PIP if "==" in line])}
    assert sorted(listed) == MAIN
    assert all(requirement.specifier == locked()[name].specifier for name, requirement in listed.items())
    assert {*MAIN} <= {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}


def test_the_environment_installs_from_the_lock_and_belongs_to_no_machine():
    assert set(CONDA) == {"name", "channels", "dependencies"}
    assert PIP[-2:] == ["-r requirements.lock", "-e ."]
    conda = [entry for entry in CONDA["dependencies"] if isinstance(entry, str)]
    python = next(entry for entry in conda if entry.startswith("python=")).removeprefix("python=")
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{python}.0") and "pip" in conda


def test_the_makefile_installs_from_the_lock():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"pip install .*-r (\S+)", makefile) == ["requirements.lock"]
