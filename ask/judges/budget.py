"""Money while it is being spent: whole micro-dollars, and a request is paid for before it is sent."""


class BudgetSpentError(Exception):
    """Another request could cost more than is left."""


class Budget:
    """What was spent, and whether one more request fits.

    A request in flight counts with the mean of what requests have cost so far, or with the first estimate.
    Real costs above the estimate can therefore overshoot by what is in flight at that moment, and no more.
    """

    def __init__(
        self,
        limit: int | None,  # micro-dollars; None: no limit
        estimate: int,  # micro-dollars a request, until one has been settled
        *,
        spent: int = 0,  # micro-dollars that went before
    ):
        self.limit = limit
        self.spent = spent  # micro-dollars, doubtful requests included
        self.doubtful = 0  # requests that may have been billed without an answer
        self._first_estimate = estimate
        self._in_flight = 0
        self._settled = 0
        self._settled_cost = 0

    @property
    def estimate(self) -> int:
        """Micro-dollars that the next request is expected to cost, rounded up."""
        return -(-self._settled_cost // self._settled) if self._settled else self._first_estimate

    def reserve(self) -> None:
        """Sets aside what one request is expected to cost.

        Raises:
            BudgetSpentError: if that and what is in flight no longer fit.
        """
        if self.limit is not None and self.spent + (self._in_flight + 1) * self.estimate > self.limit:
            raise BudgetSpentError
        self._in_flight += 1

    def settle(self, cost: int | None) -> None:
        """Replaces a reservation by the cost; by the estimate where nobody said what it was."""
        if cost is not None:
            self._settled += 1
            self._settled_cost += cost
        self._in_flight -= 1
        self.spent += self.estimate if cost is None else cost

    def release(self) -> None:
        """Gives a reservation back: the request was refused before anything was computed."""
        self._in_flight -= 1

    def doubt(self) -> None:
        """Keeps a reservation for good: the request may have been computed, but its answer never came."""
        self.doubtful += 1
        self.settle(None)
