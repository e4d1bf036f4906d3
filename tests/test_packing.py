"""Prompts as a prefix tree, compared with the sets of beginnings that it must hold."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from ask.packing import pack

END = 9
PROMPTS = st.lists(st.lists(st.integers(1, 3), max_size=11), min_size=1, max_size=12)


def padded(prompts):
    rows = [[0, *prompt, END] for prompt in prompts]
    return torch.tensor([row + [0] * (14 - len(row)) for row in rows]), rows


@given(PROMPTS)
def test_there_is_a_node_for_every_beginning_and_no_other(prompts):
    tokens, rows = padded(prompts)
    beginnings = {tuple(row[: i + 1]) for row in rows for i in range(len(row))}
    packed = pack(tokens)
    assert len(packed.tokens) == len(packed.positions) == len(packed.places) == len(beginnings)
    assert sorted(zip(packed.positions.tolist(), packed.tokens.tolist(), strict=True)) == sorted(
        (len(beginning) - 1, beginning[-1]) for beginning in beginnings
    )


@given(PROMPTS)
def test_every_path_spells_its_prompt(prompts):
    tokens, rows = padded(prompts)
    packed = pack(tokens)
    spelled = []
    for path in packed.paths:
        for nodes in path:
            row = packed.tokens[nodes].tolist()
            spelled.append(tuple(row[: row.index(END) + 1]))
    assert sorted(spelled) == sorted(map(tuple, rows))
    assert (packed.tokens[packed.ends] == END).all()


@given(PROMPTS)
def test_every_node_is_found_at_its_place(prompts):
    packed = pack(padded(prompts)[0])
    nodes = torch.cat([path.flatten() for path in packed.paths])
    assert torch.equal(nodes[packed.places], torch.arange(len(packed.tokens)))


def test_the_ends_are_in_the_order_of_the_prompts():
    packed = pack(padded([[1, 2], [1], [1, 2], [3]])[0])
    assert packed.positions[packed.ends].tolist() == [3, 2, 3, 2]
    assert packed.ends[0] == packed.ends[2] != packed.ends[1]


def test_at_most_half_of_a_bucket_is_padding():
    packed = pack(padded([[1] * k for k in range(12)])[0])
    assert [tuple(path.shape) for path in packed.paths] == [(1, 2), (2, 4), (4, 8), (5, 13)]
