"""The exceptions that adkwire raises on purpose, with texts for the person who reads them.

AdkwireError
├─ ConfigError            a mistake of the server's owner: a wrong target, option or key
└─ RequestError           one request is refused: has an HTTP status, a code and a hint
   ├─ BadRequest          400  the request is malformed
   ├─ Unauthorized        401  the request does not prove who sends it
   ├─ Forbidden           403  this site or user has no permission
   ├─ NotFound            404  it does not exist, or belongs to another user: the answer is the same
   ├─ MethodNotAllowed    405  the route does not take this method
   ├─ Conflict            409  the state of the chat or the call does not allow this
   ├─ NotRecovered        410  the position to resume from is no longer kept
   ├─ TooLarge            413  the request is larger than a limit
   ├─ UnsupportedType     415  the content type or file type is not accepted
   ├─ Misdirected         421  the Host header names another site
   ├─ Unprocessable       422  the request is well-formed, but its content is wrong
   ├─ UpgradeRequired     426  the route is a WebSocket
   ├─ TooMany             429  too many requests; has retry_after
   └─ Unavailable         503  the server is shutting down, or a store is out of order
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class FieldProblem(NamedTuple):
    """What is wrong with one field of a request; `pointer` is its JSON pointer in the body."""

    pointer: str
    message: str


class AdkwireError(Exception):
    """The base of all exceptions that adkwire raises on purpose."""


class ConfigError(AdkwireError):
    """A mistake in the configuration, with a message of one line that says what to do."""


class RequestError(AdkwireError):
    """The refusal of a request, which has changed nothing."""

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
    """The request does not prove who sends it."""

    status = 401
    code = "unauthorized"


class Forbidden(RequestError):
    """This site or this user has no permission."""

    status = 403
    code = "forbidden"


class NotFound(RequestError):
    """The chat, run or route does not exist for this user."""

    status = 404
    code = "not-found"


class MethodNotAllowed(RequestError):
    """The route exists, but does not take this method."""

    status = 405
    code = "method-not-allowed"


class Conflict(RequestError):
    """The state of the chat or the call does not allow this."""

    status = 409
    code = "conflict"


class NotRecovered(RequestError):
    """The position from which a client wants to resume is no longer kept: it must load the chat again."""

    status = 410
    code = "not-recovered"


class TooLarge(RequestError):
    """The request, or something in it, is larger than a limit allows."""

    status = 413
    code = "too-large"


class UnsupportedType(RequestError):
    """The content type, or the type of a file, is not accepted."""

    status = 415
    code = "unsupported-type"


class Misdirected(RequestError):
    """The Host header names another site."""

    status = 421
    code = "misdirected"


class Unprocessable(RequestError):
    """The request is well-formed, but its content is wrong."""

    status = 422
    code = "unprocessable"

    def __init__(self, message: str, *, hint: str | None = None, fields: Sequence[FieldProblem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.fields = tuple(fields)


class UpgradeRequired(RequestError):
    """The route is a WebSocket, and the request does not open one."""

    status = 426
    code = "upgrade-required"


class TooMany(RequestError):
    """There were too many requests: try again after `retry_after` seconds."""

    status = 429
    code = "too-many"

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Unavailable(RequestError):
    """The server is shutting down, or a store is out of order: try again later."""

    status = 503
    code = "unavailable"
