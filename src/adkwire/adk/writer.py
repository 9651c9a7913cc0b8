"""Writer: the task that stores events in a session, and the way to lock it out once it is abandoned."""

from contextvars import ContextVar


class Writer:
    """A task, with all tasks that it starts, that stores events in sessions and executes calls.

    A tool or a library may swallow a cancellation. Its task is then abandoned and its chat goes on without it: whatever
    the task does later must not reach the session, nor execute another call.
    """

    def __init__(self) -> None:
        self.is_locked_out = False
        """True once the task was abandoned."""

    def lock_out(self) -> None:
        """Store nothing more of this task, and execute no call of it."""
        self.is_locked_out = True


class LockedOutError(Exception):
    """An abandoned task tried to store an event or to execute a call."""


WRITER: ContextVar[Writer | None] = ContextVar("adkwire_writer", default=None)
"""The writer of the current task; None for tasks that are never abandoned."""


def check_writer() -> None:
    """Raise `LockedOutError` in a task that was abandoned."""
    writer = WRITER.get()
    if writer is not None and writer.is_locked_out:
        raise LockedOutError("this task was stopped and abandoned; its chat goes on without it")
