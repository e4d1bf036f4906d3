import numpy as np
import pytest

from ask.datasets.formats.imagenet import DOGS, wnids
from ask.datasets.wordnet import WordNetError, distances, dogs, nouns

PAIRS = {  # WordNet 3.0, checked with NLTK
    ("n02085620", "n02085782"): 2,
    ("n02110958", "n02111889"): 3,
    ("n02085620", "n02111889"): 4,
    ("n02085620", "n02088364"): 5,
    ("n02106662", "n02094433"): 6,
    ("n02085620", "n02095889"): 7,
    ("n02086646", "n02089078"): 8,
    ("n02086646", "n02095889"): 9,
}


@pytest.mark.parametrize(("pair", "edges"), PAIRS.items())
def test_distances_are_those_of_wordnet(pair, edges):
    assert distances(pair).tolist() == [[0, edges], [edges, 0]]


def test_all_breeds_have_the_known_distances_and_a_positive_definite_similarity():
    found = distances(wnids()[DOGS])
    edges, counts = np.unique(found[np.triu_indices(118, 1)], return_counts=True)
    assert dict(zip(edges.tolist(), counts.tolist(), strict=True)) == {
        2: 360, 3: 540, 4: 1091, 5: 1968, 6: 1720, 7: 940, 8: 260, 9: 24,
    }  # fmt: skip
    assert np.linalg.eigvalsh(1 / (1 + found)).min() == pytest.approx(0.667, abs=1e-3)


def test_a_synset_that_is_not_shipped_is_named():
    with pytest.raises(WordNetError, match=r"n01440764 is not among the 1\d\d synsets"):
        distances(["n01440764", "n02085620"])


def test_data_noun_is_read_with_its_hexadecimal_counts(tmp_path):
    licence = "  1 This software and database is being provided to you\n"
    lines = [
        "00000001 03 n 01 entity 0 001 ~ 00000002 n 0000 | all there is",
        "00000002 03 n 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 002 @ 00000001 n 0000 + 00000001 v 0101 | ten words",
        "00000003 03 n 01 rex 0 001 @i 00000002 n 0000 | an instance",
    ]
    (tmp_path / "data.noun").write_text(licence + "\n".join(lines) + "\n", encoding="latin-1")
    table = nouns(tmp_path / "data.noun")
    assert table == {"n00000001": [], "n00000002": ["n00000001"], "n00000003": ["n00000002"]}
    assert distances(["n00000003", "n00000001"], table)[0, 1] == 2


def test_another_file_and_none_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="install wordnet-base"):
        nouns(tmp_path / "data.noun")
    (tmp_path / "data.noun").write_text("hello there\n")
    with pytest.raises(WordNetError, match=r"is not WordNet's data\.noun"):
        nouns(tmp_path / "data.noun")


def test_what_lies_above_dogs_is_complete():
    table = dogs()
    assert all(other in table for above in table.values() for other in above)
    assert sorted(table["n02084071"]) == ["n01317541", "n02083346"]
