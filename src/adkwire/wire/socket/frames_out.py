"""The frames that the server sends on a chat socket.

Upstream: `websocket-chat-transport.ts` of ai 7.0.135 to 7.0.169. The official client closes the connection, with all
chats on it, at the first frame that it does not know. So `notice`, `pong` and the fields `code`, `toolCallId` and `id`
go only to clients that asked for the subprotocol.

A chunk is encoded once for all readers, so a frame is put together around the bytes of its chunk.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from adkwire.wire.chunks import encode_chunk
from adkwire.wire.profiles import Profile

NoticeLevel: TypeAlias = Literal["info", "warning", "error"]

_LAST_CHUNK = re.compile(rb' ?\{"type":"(?:error|finish)"')


def start_frame(request_id: str) -> str:
    """Return the frame that comes before the chunks of a request."""
    return _frame({"type": "start", "requestId": request_id})


def end_frame(request_id: str) -> str:
    """Return the frame that comes after the last chunk of a request."""
    return _frame({"type": "end", "requestId": request_id})


def no_active_frame(request_id: str) -> str:
    """Return the frame that answers a resume when the chat has no active run."""
    return _frame({"type": "no-active", "requestId": request_id})


def error_frame(request_id: str, text: str, code: str | None = None, call: str | None = None) -> str:
    """Return the frame of a request that was refused or has failed.

    `code` is the code of the error, `call` the tool call that the request was about.
    """
    frame = {"type": "error", "requestId": request_id, "errorText": text}
    more = {"code": code, "toolCallId": call}
    return _frame(frame | {name: value for name, value in more.items() if value is not None})


def notice_frame(level: NoticeLevel, code: str, text: str) -> str:
    """Return the frame of a message to the user that belongs to no request."""
    return _frame({"type": "notice", "level": level, "code": code, "text": text})


def pong_frame(timestamp: float | None, server_time: float) -> str:
    """Return the answer to a ping, with the server's time in milliseconds since 1970."""
    return _frame({"type": "pong", "timestamp": timestamp, "serverTime": server_time})


def _frame(value: Mapping[str, object]) -> str:
    return encode_chunk(value).decode()


def is_last_chunk(entry: bytes) -> bool:
    """Return True for an encoded chunk that ends its run: `error` or `finish`."""
    return _LAST_CHUNK.match(entry) is not None


class ChunkFrames:
    """The `chunk` frames of one request: fitted to the client's release and numbered without gaps."""

    def __init__(
        self, request_id: str, profile: Profile, *, run: str | None = None, first: int = 0, behind: int = -1
    ) -> None:
        """Number the chunks from `first` on; those up to the number `behind` are counted and not sent again.

        With a `run`, every frame also has the position of its chunk.
        """
        self._fit: Callable[[bytes], bytes | None] = profile.fit_encoded
        self._next = first
        self._behind = behind
        self._head = b'{"type":"chunk","requestId":' + encode_chunk(request_id) + b',"sequence":'
        self._position = b"" if run is None else b',"id":"' + run.encode() + b":"

    def encode(self, first: int, entries: Sequence[bytes]) -> list[str]:
        """Return the frames of entries of the stream log, of which the first has the number `first`."""
        frames: list[str] = []
        for number, entry in enumerate(entries, first):
            chunk = self._fit(entry)
            if chunk is None:
                continue
            if self._next > self._behind:
                frames.append(self._frame(number, chunk))
            self._next += 1
        return frames

    def _frame(self, number: int, chunk: bytes) -> str:
        position = self._position + b'%d"' % number if self._position else b""
        return b"".join((self._head, b"%d" % self._next, position, b',"chunk":', chunk, b"}")).decode()
