import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.judges.budget import Budget, BudgetSpentError


def spend(budget, cost, calls):
    """Sends up to so many requests one after the other; how many the budget let through."""
    for sent in range(calls):
        try:
            budget.reserve()
        except BudgetSpentError:
            return sent
        budget.settle(cost)
    return calls


def test_ten_calls_of_a_thousandth_fit_into_a_budget_of_a_little_more_than_a_hundredth():
    assert spend(Budget(10_500, 1_000), 1_000, 50) == 10
    assert spend(Budget(10_000, 1_000), 1_000, 50) == 10
    assert spend(Budget(9_999, 1_000), 1_000, 50) == 9


def test_requests_in_flight_count_before_they_cost_anything():
    budget = Budget(3_000, 1_000)
    for _ in range(3):
        budget.reserve()
    with pytest.raises(BudgetSpentError):
        budget.reserve()
    budget.release()
    budget.reserve()


@given(cost=st.integers(0, 5_000), workers=st.integers(1, 20), limit=st.integers(1_000, 50_000))
def test_a_cost_above_the_estimate_overshoots_by_what_is_in_flight_at_most(cost, workers, limit):
    budget, in_flight = Budget(limit, 1_000), 0
    for _ in range(200):
        try:
            while in_flight < workers:
                budget.reserve()
                in_flight += 1
        except BudgetSpentError:
            break
        budget.settle(cost)
        in_flight -= 1
    for _ in range(in_flight):
        budget.settle(cost)
    assert budget.spent <= limit + workers * cost


def test_a_request_of_unknown_cost_stays_reserved_and_one_in_doubt_is_counted():
    budget = Budget(None, 700)
    budget.reserve()
    budget.settle(None)
    budget.reserve()
    budget.doubt()
    assert (budget.spent, budget.doubtful) == (1_400, 1)


def test_the_mean_of_real_costs_replaces_the_estimate_rounded_up():
    budget = Budget(None, 5_000)
    for cost in (10, 11):
        budget.reserve()
        budget.settle(cost)
    assert budget.estimate == 11


def test_what_went_before_counts():
    assert spend(Budget(10_000, 1_000, spent=8_000), 1_000, 50) == 2
