"""The form of a mutant."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A change of the source, `old` to `new` in `file`, after which one of `tests` must fail.

    `file` is relative to src/adkwire/, or to the repository if it is in `web/`: then the page is built again. `tests`
    are relative to tests/ and separated by spaces.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
