"""The one reader of params.yaml: typed values, honest under DVC, and the recipe of an arm.

In reading order: `load` the file, `get` one value of a stated kind, `resolve` what an arm runs with. The file
is read as YAML 1.2, as DVC reads it; a number in a notation that other readers take for a string is refused.
``ASK_PARAMS`` may name a second file, a profile's, which holds only what differs.
"""

import os
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from ask.paths import project, root


class ParamError(ValueError):
    """A value of params.yaml is missing, of the wrong kind, or read by a stage that does not declare it."""


class _FromParams:
    """Marks a value that `get` returned, so that `resolve` can tell it from one that was set with ``-p``."""


class _Int(_FromParams, int): ...


class _Float(_FromParams, float): ...


class _Str(_FromParams, str): ...


class _List(_FromParams, list): ...


class _Dict(_FromParams, dict): ...


_MARKED = {int: _Int, float: _Float, str: _Str, list: _List, dict: _Dict}
_NOUNS = {int: "integer", float: "number", str: "string", bool: "boolean", list: "list", dict: "mapping"}


def load() -> dict[str, Any]:
    """The whole of params.yaml, a profile's laid over it, as plain Python values, without any check."""
    params: dict[str, Any] = {}
    for file in _files():
        params = _over(params, YAML(typ="safe").load(file))
    return params


def get(key: str, kind: type) -> Any:
    """The value at a dotted key, such as ``training.learning_rate``, as the `kind` that is asked for.

    An integer is welcome where a float is asked for. The value remembers where it came from (see `resolve`)
    and is otherwise an ordinary int, float, str, list or dict; a bool cannot be marked and is plain.

    Raises:
        ParamError: if the key is missing, its value of another kind, or the running stage does not list it.
    """
    _check_declared(key)
    found: Any = load()
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(found, dict) or part not in found:
            section = ".".join(parts[:depth]) or "the file"
            known = ", ".join(map(str, found)) if isinstance(found, dict) else "no keys"
            raise ParamError(f"params.yaml has no {key}; {section} has {known}")
        found = found[part]
    accepted = (int, float) if kind is float else kind
    if not isinstance(found, accepted) or (isinstance(found, bool) and kind is not bool):
        raise ParamError(_of_another_kind(key, kind, found))
    return _MARKED[kind](found) if kind in _MARKED else found


def resolve(section: str, arm: str, catalogue: str = "arms", **flat: Any) -> dict[str, Any]:
    """What `arm` runs with: a value set with ``-p`` wins over the arm's own entry, and that over the section.

    `flat` holds the names that the notebook's ``parameters`` cell read with `get`; one that no longer bears
    `get`'s mark was set from outside, even if it repeats the section's own number. The arm that the section
    names itself (``training.arm`` for the catalogue ``arms``) needs no entry: it is the section as it stands.
    Any other name outside the catalogue is welcome only if every value was set from outside.

    Args:
        section: the section of params.yaml that `flat` was read from.
        arm: the entry to look up.
        catalogue: the top-level mapping from names to the values in which they differ from the section.
        **flat: the values of the ``parameters`` cell.

    Returns:
        `flat` with the arm's values filled in, as plain Python types.

    Raises:
        ParamError: for an unknown arm (the known ones are listed) or an arm with a key the section lacks.
    """
    params = load()
    base, entries = params[section], params[catalogue]
    own = base.get(catalogue, base.get(catalogue.removesuffix("s")))
    given = {name: value for name, value in flat.items() if _is_given(value, base.get(name))}
    if arm not in entries and arm != own and len(given) < len(flat):
        known = ", ".join(dict.fromkeys([own, *entries]))
        raise ParamError(f"{catalogue} of params.yaml has no {arm!r}; known: {known}")
    entry = get(f"{catalogue}.{arm}", dict) if arm in entries else {}
    if stray := ", ".join(sorted(set(entry) - set(base))):
        raise ParamError(f"{catalogue}.{arm} sets {stray}, but section {section} lacks it; add it there")
    return {name: _plain(given.get(name, entry.get(name, value))) for name, value in flat.items()}


def _files() -> list[Path]:
    """The files that are read, the later over the earlier."""
    named = os.environ.get("ASK_PARAMS")
    files = [root() / "params.yaml", *([root() / named] if named else [])]
    if missing := [file for file in files if not file.is_file()]:
        raise ParamError(f"there is no {missing[0]}; correct ASK_PARAMS")
    return files


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Two mappings as one; what both have is the upper's, and of two mappings again both."""
    both = {
        key: _over(below[key], above[key]) for key in below.keys() & above if _are_mappings(below, above, key)
    }
    return below | above | both


def _are_mappings(below: dict[str, Any], above: dict[str, Any], key: str) -> bool:
    return isinstance(below[key], dict) and isinstance(above[key], dict)


def _is_given(value: Any, default: Any) -> bool:
    """Whether a value was set from outside; a bool bears no mark, so only one unlike the section's counts."""
    return value != default if isinstance(value, bool) else not isinstance(value, _FromParams)


def _plain(value: Any) -> Any:
    return next((kind(value) for kind, marked in _MARKED.items() if type(value) is marked), value)


def _of_another_kind(key: str, kind: type, found: Any) -> str:
    wanted = f"{'an' if kind is int else 'a'} {_NOUNS[kind]}"
    shown = "null" if found is None else str(found).lower() if isinstance(found, bool) else repr(found)
    instead = wanted
    if kind in (int, float) and re.fullmatch(r"[+-]?\d+e[+-]?\d+", str(found), re.IGNORECASE):
        instead = str(found).lower().replace("e", ".0e")
    noun = _NOUNS.get(type(found), "value")
    return f"{key} must be {wanted}, but params.yaml has the {noun} {shown}; write {instead}"


def _check_declared(key: str) -> None:
    """Under DVC, refuse a key that the stage does not list: DVC would not see that it changed."""
    stage = os.environ.get("DVC_STAGE")
    if stage and not any(re.match(rf"{pattern}(\.|$)", key) for pattern in _declared(stage)):
        raise ParamError(f"stage {stage} reads {key}, which its params in dvc.yaml do not list; add it there")


def _declared(stage: str) -> list[str]:
    """Patterns of the keys that a stage lists; ``${item.arm}`` and the like stand for any one name."""
    started = Path(os.environ.get("DVC_ROOT") or root()).resolve()
    # A profile's pipeline is its own, while an experiment's copy of the root's is read where it runs.
    around = project(started)
    pipeline = (started if around not in (None, started) else root()) / "dvc.yaml"
    entry = YAML(typ="safe").load(pipeline)["stages"][stage.rpartition(":")[2].partition("@")[0]]
    keys = []
    for listed in entry.get("do", entry).get("params", []):
        by_file = listed if isinstance(listed, dict) else {"params.yaml": [listed]}
        for file, names in by_file.items():
            keys += names if (pipeline.parent / file).resolve() in _files() else []
    return [re.sub(r"\\\$\\\{.*?\\\}", "[^.]+", re.escape(key)) for key in keys]
