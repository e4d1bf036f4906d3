"""A bar for a run that asks: rate, time left, what it has cost so far, and what went wrong by kind."""

from collections.abc import Callable

from tqdm import tqdm

from ask.elicitation import Progress


def bar(
    label: str,
) -> Callable[[Progress], None]:
    """What `elicit` may report to; nothing is drawn if nothing has to be asked."""
    drawn: list[tqdm] = []

    def report(progress: Progress) -> None:
        if not drawn:
            drawn.append(tqdm(total=progress.total, desc=label, unit="pair"))
        told = {"dollars": f"{progress.cost / 1e6:.2f}"} if progress.cost else {}
        drawn[0].set_postfix(told | progress.trouble, refresh=False)
        drawn[0].update(progress.done - drawn[0].n)
        if progress.done == progress.total:
            drawn[0].close()

    return report
