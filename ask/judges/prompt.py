"""What a judge is asked: the paper's form, for any criterion."""

TEMPLATE = (
    "Compare the two images by {criterion}, and by nothing else. How similar are they? Answer with a single digit "
    "from 1 (as different as can be) to 9 (the same). Write the digit only."
)


def general_prompt(
    criterion: str,  # a noun phrase: pose and viewpoint
) -> str:
    """A prompt for a criterion that has none of its own; two images and one digit from 1 to 9 (ASK, appendix G)."""
    return TEMPLATE.format(criterion=criterion)
