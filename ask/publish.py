"""The published snapshot, brought up to date: `python -m ask.publish` merges the store into ``data/judgments``.

Answers of simulated judges under another seed than the pipeline's stay out; whoever wants them computes them.
"""

from ask import params
from ask.journal import publish, stored_identities
from ask.paths import data, root, store


def main() -> None:
    """Writes one table per judge, criterion and identity, and prints where."""
    seed = params.load()["seed"]
    chosen = [one for one in stored_identities(store()) if one.get("seed") in (None, seed)]
    for path in publish(store(), data("judgments"), chosen):
        print(path.relative_to(root()))


if __name__ == "__main__":
    main()
