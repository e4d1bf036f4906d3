from collections import Counter

from ask.elicitation import Progress
from ask.progress import bar


def test_the_bar_shows_pairs_money_and_trouble(capsys):
    report = bar("breed")
    report(Progress(1, 4, 0, Counter()))
    report(Progress(4, 4, 1_230_000, Counter(rate_limit=2)))
    shown = capsys.readouterr().err
    assert "breed: 100%" in shown and "4/4" in shown and "dollars=1.23" in shown and "rate_limit=2" in shown


def test_nothing_is_drawn_if_nothing_is_asked(capsys):
    bar("breed")
    assert capsys.readouterr().err == ""
