import pytest

from ask import readme
from ask.paths import root

TEXT = "# Title\n\n<!-- claims:begin -->\n| old |\n<!-- claims:end -->\n\nafter\n"


def test_a_table_replaces_what_stands_between_the_markers():
    new = readme.replaced(TEXT, "| new |\n\n")
    assert new == TEXT.replace("| old |", "| new |") and readme.shown(new) == "| new |"
    assert readme.replaced(new, "| new |") == new


def test_a_readme_without_its_markers_is_refused():
    with pytest.raises(ValueError, match="must have the lines <!-- claims:begin -->") as error:
        readme.replaced("# Title\n", "| new |")
    assert "once, in this order; add them" in str(error.value)


def test_the_readme_is_rewritten_in_place(project):
    (project / "README.md").write_text(TEXT)
    (project / "claims.md").write_text("| new |\n")
    readme.main(["claims.md"])
    assert readme.shown((project / "README.md").read_text()) == "| new |"


def test_the_readme_shows_the_claims_that_were_measured_last():
    table = root() / "profiles" / "claims" / "results" / "ablations" / "claims.md"
    assert (
        readme.shown((root() / "README.md").read_text(encoding="utf-8"))
        == table.read_text(encoding="utf-8").strip()
    )
