import torch

from ask.heads import LinearHead, MLPHead


def count(head):
    return sum(parameter.numel() for parameter in head.parameters())


def test_heads_have_the_papers_sizes():
    assert count(LinearHead(512)) == 262_144
    assert count(MLPHead(512, seed=0)) == 2_362_112


def test_heads_are_the_identity_at_first_and_learn_everywhere():
    features = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    for head in (LinearHead(6), MLPHead(6, 8, seed=0)):
        assert torch.equal(head(features), features)
        for parameter in head.parameters():
            parameter.data += 0.1
        head(features).square().sum().backward()
        assert all(parameter.grad.any() for parameter in head.parameters())


def test_the_mlp_head_computes_its_formula():
    head, x = MLPHead(2, 3, seed=0).double(), torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    for number, parameter in enumerate(head.parameters()):
        parameter.data = torch.sin(torch.arange(parameter.numel(), dtype=torch.float64) + number).reshape(
            parameter.shape
        )
    w1, b1, w2, b2 = (parameter.detach() for parameter in head.parameters())
    inner = x @ w1.T + b1
    expected = x + (inner * (1 + torch.erf(inner / 2**0.5)) / 2) @ w2.T + b2
    assert torch.allclose(head(x), expected, rtol=0, atol=1e-14)


def test_the_mlp_head_follows_its_seed_alone():
    before = torch.random.get_rng_state()
    first, same, other = (MLPHead(4, 5, seed=seed).into.weight for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
