"""Everything that can go wrong in words a person can use.

AdkwireError
├─ ConfigError            the owner of the server: a bad target, option or key
└─ RequestError           one request: carries an HTTP status, a code and a hint
   ├─ BadRequest          400  malformed
   ├─ Unauthorized        401  who are you?
   ├─ Forbidden           403  this origin or person may not
   ├─ NotFound            404  unknown, or another user's: the two are never told apart
   ├─ MethodNotAllowed    405  the thing is there, but not for this method
   ├─ Conflict            409  the chat is busy
   ├─ NotRecovered        410  what the client wants to go on with is no longer kept
   ├─ TooLarge            413
   ├─ UnsupportedType     415
   ├─ Misdirected         421  the Host is not ours
   ├─ Unprocessable       422  well-formed, but wrong
   ├─ UpgradeRequired     426  a socket, asked as if it were a page
   ├─ TooMany             429  with retry_after
   └─ Unavailable         503  draining, or a store is away
"""

from typing import ClassVar


class AdkwireError(Exception):
    """Anything adkwire raises on purpose."""


class ConfigError(AdkwireError):
    """The server cannot start as it was told to; the message is one line and says what to do."""


class RequestError(AdkwireError):
    """A request that is refused: nothing was changed."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadRequest(RequestError):
    """The request could not be read."""

    status = 400
    code = "malformed"


class Unauthorized(RequestError):
    """Nobody is named, or not convincingly."""

    status = 401
    code = "unauthorized"


class Forbidden(RequestError):
    """This origin or person may not."""

    status = 403
    code = "forbidden"


class NotFound(RequestError):
    """There is no such thing for this user."""

    status = 404
    code = "not-found"


class MethodNotAllowed(RequestError):
    """The thing is there, but it does not take this method."""

    status = 405
    code = "method-not-allowed"


class Conflict(RequestError):
    """The chat is busy with something else."""

    status = 409
    code = "conflict"


class NotRecovered(RequestError):
    """The place a client wants to go on from is no longer kept: it must load the chat again."""

    status = 410
    code = "not-recovered"


class TooLarge(RequestError):
    """More than a limit allows."""

    status = 413
    code = "too-large"


class UnsupportedType(RequestError):
    """A content type or file type that is not taken."""

    status = 415
    code = "unsupported-type"


class Misdirected(RequestError):
    """The Host header names another site."""

    status = 421
    code = "misdirected"


class Unprocessable(RequestError):
    """Well-formed, but it makes no sense."""

    status = 422
    code = "unprocessable"


class UpgradeRequired(RequestError):
    """This is a socket, and the request asks for none."""

    status = 426
    code = "upgrade-required"


class TooMany(RequestError):
    """Slow down: try again after `retry_after` seconds."""

    status = 429
    code = "too-many"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Unavailable(RequestError):
    """The server is going down or cannot reach a store."""

    status = 503
    code = "unavailable"
