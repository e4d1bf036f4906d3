"""What a fresh clone fetches: the remote that travels with the repository holds all that data.dvc names."""

import json

from ruamel.yaml import YAML
from sources import ROOT

REMOTE = ROOT / ".dvc" / "bundled" / "files" / "md5"


def stored(md5: str):
    return REMOTE / md5[:2] / md5[2:]


def test_the_bundled_remote_holds_the_data():
    (out,) = YAML(typ="safe").load(ROOT / "data.dvc")["outs"]
    assert stored(out["md5"]).is_file(), "data.dvc is newer than the release; run make release"
    listed = json.loads(stored(out["md5"]).read_bytes())
    assert len(listed) == out["nfiles"]
    assert [one["relpath"] for one in listed if not stored(one["md5"]).is_file()] == []
