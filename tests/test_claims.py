"""The claims: which side of the line a number is on, and how the README says so."""

import pandas as pd
import pytest

from ask import claims
from ask.published import published

ARMS = {
    "untrained": (0.20, 25.0, 60.0),
    "ask": (0.60, 50.0, 59.0),
    "no-anchor": (0.60, 52.0, 40.0),
    "shuffled": (0.22, 28.0, 58.0),
    "feature-l2": (0.21, 25.5, 60.0),
    "argmax": (0.58, 49.0, 59.0),
    "wavering-raw": (0.40, 40.0, 58.0),
    "wavering-psd": (0.41, 41.0, 58.0),
}
CRITERIA = ["breed", "colour", "pose", "texture", "background"]


def arms(**changes):
    return pd.DataFrame(ARMS | changes, index=["fidelity", "map", "zero_shot"]).T


def criteria():
    table = pd.DataFrame(0.1, index=CRITERIA, columns=CRITERIA)
    for name in CRITERIA:
        table.loc[name, name] = 0.5
    return table


def test_all_claims_hold_where_they_should():
    found = claims.claims(arms(), criteria())
    assert found["holds"].all(), found
    assert len(found) == 12


@pytest.mark.parametrize(
    ("arm", "numbers", "told"),
    [
        ("ask", (0.60, 44.0, 59.0), "raises unseen-class mAP"),
        ("ask", (0.49, 50.0, 59.0), "fidelity to the judge"),
        ("ask", (0.60, 50.0, 57.0), "kept with the anchor"),
        ("no-anchor", (0.60, 52.0, 51.0), "lost without it"),
        ("shuffled", (0.22, 32.0, 58.0), "share of ASK"),
        ("shuffled", (0.26, 28.0, 58.0), "fidelity gained"),
        ("feature-l2", (0.21, 23.0, 60.0), "pins mAP"),
        ("wavering-raw", (0.40, 42.0, 58.0), "projected minus raw"),
        ("argmax", (0.58, 51.0, 59.0), "digit: mAP"),
        ("argmax", (0.62, 49.0, 59.0), "digit: fidelity"),
    ],
)
def test_a_number_on_the_wrong_side_fails_its_claim(arm, numbers, told):
    found = claims.claims(arms(**{arm: numbers}), criteria()).set_index("claim")["holds"]
    assert not found[[name for name in found.index if told in name]].any()


def test_a_criterion_led_by_another_student_is_counted():
    table = criteria()
    table.loc["breed", "pose"] = 0.9
    found = (
        claims.claims(arms(), table).set_index("claim").loc["criteria whose own student leads their column"]
    )
    assert (found["measured"], found["holds"]) == (3, False)


def test_the_paper_holds_its_own_claims():
    gain = published("1", "Dogs / ASK (ours)", "mAP") - published("1", "Dogs / Untrained CLIP", "mAP")
    found = claims.claims(arms(), criteria()).set_index("claim")["paper"]
    assert found["ASK raises unseen-class mAP"] == pytest.approx(gain) == pytest.approx(38.1)


def test_a_failing_claim_is_shown_as_such():
    shown = claims.as_markdown(claims.claims(arms(ask=(0.60, 44.0, 59.0)), criteria()), seeds=3)
    assert "mean of 3 seeds" in shown
    assert "| 19 | ≥ 20 | **fails** |" in shown
    assert "miniature world, simulated judge" in shown.lower()


def test_a_cell_that_the_paper_lacks_is_named():
    with pytest.raises(KeyError, match="no single cell Dogs / Nobody / mAP in table 1"):
        published("1", "Dogs / Nobody", "mAP")
