"""Puts the claims into the README: python -m ask.readme TABLE [README], relative to the project's root."""

import re
import sys

from ask.paths import root

BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"


def shown(readme: str) -> str:
    """What stands between the two markers of a README.

    Raises:
        ValueError: if the README does not have each marker once, in order.
    """
    found = re.findall(rf"{BEGIN}\n(.*?)\n?{END}", readme, re.DOTALL)
    if len(found) != 1 or readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"README must have the lines {BEGIN} and {END} once, in this order; add them")
    return found[0].strip()


def replaced(readme: str, table: str) -> str:
    """The README with `table` between the markers instead of what stands there."""
    shown(readme)
    before, after = readme.split(BEGIN)[0], readme.split(END)[1]
    return f"{before}{BEGIN}\n{table.strip()}\n{END}{after}"


def main(argv: list[str] | None = None) -> None:
    """Rewrite the README in place."""
    table, readme = [root() / name for name in [*(argv or sys.argv[1:]), "README.md"][:2]]
    text = replaced(readme.read_text(encoding="utf-8"), table.read_text(encoding="utf-8"))
    readme.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
