"""Why a socket ends: every close code that this server sends, with its reason."""

from typing import NamedTuple


class Ending(NamedTuple):
    """The close code and the reason that a client gets when its socket ends."""

    code: int
    reason: str


GONE = Ending(1006, "the client is gone")
"""The client has closed the connection or lost it. Nothing is sent."""
DONE = Ending(1000, "done")
TAKEN_OVER = Ending(1000, "taken over")
RESTARTING = Ending(1001, "the server restarts")
MALFORMED = Ending(1008, "too many malformed frames")
REFUSED = Ending(1008, "refused")
NO_CHAT = Ending(4404, "no such chat")
IDLE = Ending(4408, "idle")
SLOW = Ending(4408, "slow reader")
TOO_FAST = Ending(4429, "too many frames")
TOO_MANY_SOCKETS = Ending(4429, "too many sockets")
STORE_UNAVAILABLE = Ending(4503, "a store does not answer")
