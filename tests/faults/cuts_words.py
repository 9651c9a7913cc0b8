"""The numbered words of the agent, for the agent and for the checks."""


def numbered(letter: str, before: int, count: int) -> str:
    """Return so many words, from the number after `before` on: `w1 w2 w3 `."""
    return "".join(f"{letter}{number} " for number in range(before + 1, before + count + 1))


def whole(wish: str) -> str:
    """Return the whole answer of the agent to a message."""
    _, _, *counts = wish.split(" ")
    return numbered("w", 0, sum(map(int, counts)))
