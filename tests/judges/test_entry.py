import pytest

from ask.judges import JudgeError
from ask.judges.entry import settings
from ask.params import load

GOOD = {"model": "vlm", "base_url": "https://r.example/v1", "free": True}


def test_what_is_not_said_has_a_default():
    filled = settings("served", {"kind": "hosted", **GOOD})
    assert (filled["method"], filled["concurrency"], filled["key"]) == ("expected", 10, "OPENROUTER_API_KEY")


def test_every_served_judge_of_the_catalogue_fits():
    entries = {name: entry for name, entry in load()["judges"].items() if entry["kind"] == "hosted"}
    assert len([settings(name, entry) for name, entry in entries.items()]) == 7


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"modle": "x"}, "has no setting 'modle'; a hosted judge knows model, base_url"),
        ({"model": ""}, "needs model in its entry"),
        ({"method": "guess"}, "method must be expected or parsed"),
        ({"free": False}, "needs input_price and output_price"),
        ({"concurrency": "ten"}, "concurrency must be a int"),
        ({"extra": {"api_key": "sk-1"}}, "has api_key in extra, which is stored with every answer"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(entry, told):
    with pytest.raises(JudgeError, match=told):
        settings("served", GOOD | entry)
