"""Outages: which exceptions mean that a store cannot be used now, and which mean that the code has a bug."""

import sqlite3

_BUGS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    # Of SQLite it means a wrong use of its interface; other drivers raise theirs when they lose the connection.
    sqlite3.InterfaceError,
)
_BUG_NAMES = frozenset({"DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"})
"""What drivers of databases call exceptions that a wrong statement or wrong data cause (PEP 249)."""


def is_outage(error: Exception) -> bool:
    """Return whether an exception of a store says that the store cannot be used now, so that a client may try again.

    A lost connection, a timeout, a full disk or a locked file is an outage, and so is what an unknown library raises.
    A `TypeError` or a violated constraint is a bug: trying again fails again.
    """
    return not isinstance(error, _BUGS) and not any(each.__name__ in _BUG_NAMES for each in type(error).__mro__)
