from ask import publish
from ask.journal import Journal, read_snapshot
from ask.judges import Pair, Reply

PAIR, REPLY = Pair("a", "b", 0, 1), Reply({"5": 0.5}, "5", "x", 2, 3)
BOUGHT = {"kind": "hosted", "name": "served", "criterion": "breed", "seed": None}
SIMULATED = {"kind": "simulated", "name": "steady", "criterion": "breed", "seed": 0}


def test_answers_of_the_pipelines_seed_and_bought_ones_are_published(project):
    other = SIMULATED | {"seed": 1}
    for identity in (BOUGHT, SIMULATED, other):
        Journal(publish.store(), identity).append([PAIR], [REPLY])
    publish.main()
    found = [read_snapshot(project / "data" / "judgments", one) for one in (BOUGHT, SIMULATED, other)]
    assert found == [{("a", "b"): REPLY}, {("a", "b"): REPLY}, {}]
