"""What a mutant is."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """In `file`, `old` is replaced by `new`; one of `tests`, named from tests/ on and parted by blanks, must fail.

    `file` is named from src/adkwire/ on; one in `web/`, of which the page is built anew, from the repository on.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
