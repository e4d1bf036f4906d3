import pytest

PARAMS = """\
seed: 0
training:
  {arm: ask, targets: breed, rank: 8, learning_rate: 1.5e-3, projected: true, quoted: "1e-4", some: [1, 2]}
arms:
  hot: {learning_rate: 1.0e-2}
  flat: {projected: false}
  stray: {rnak: 4}
targets: {breed: {rank: 8}, colour: {rank: 2}}
"""


@pytest.fixture(autouse=True)
def no_outer_project(monkeypatch):
    """No test inherits the root, workspace or stage of whoever started it."""
    for name in ("ASK_ROOT", "ASK_WORKSPACE", "ASK_PARAMS", "ASK_STORE", "DVC_ROOT", "DVC_STAGE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The root of a small project of its own, in a folder whose name has a space."""
    root = tmp_path / "a project"
    (root / "notebooks").mkdir(parents=True)
    (root / "params.yaml").write_text(PARAMS)
    (root / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(root)
    return root
