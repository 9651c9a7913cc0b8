"""The numbered words of the agent, for who says them and for who checks them."""


def numbered(letter: str, before: int, count: int) -> str:
    """So many words, from the number behind `before` on: `w1 w2 w3 `."""
    return "".join(f"{letter}{number} " for number in range(before + 1, before + count + 1))


def whole(wish: str) -> str:
    """All that the agent says when nothing comes between."""
    _, _, *counts = wish.split(" ")
    return numbered("w", 0, sum(map(int, counts)))
