"""A small server of canned frames, as `stub` is one of canned streams."""

import contextlib
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.conformance.records import Chunk, Message

Frame = dict[str, Any]


def frames(*chunks: Chunk) -> list[Frame]:
    """A well-ordered answer of these chunks; the id of its request is put in when it is asked for."""
    numbered = [{"type": "chunk", "sequence": n, "chunk": chunk} for n, chunk in enumerate(chunks)]
    return [{"type": "start"}, *numbered, {"type": "end"}]


@contextlib.contextmanager
def serve_socket_stub(scripts: Mapping[str, Sequence[Frame]], stored: Mapping[str, Message]) -> Generator[str]:
    """Answer every `send` in a chat by the frames of its script until the block ends; the base URL."""
    users: dict[str, list[Message]] = {}

    def talk(socket: ServerConnection) -> None:
        for text in socket:
            asked = json.loads(text)
            users[asked["id"]] = [message for message in asked["messages"] if message["role"] == "user"]
            for frame in scripts[asked["id"]]:
                socket.send(json.dumps({"requestId": asked["requestId"], **frame}))

    def history(socket: ServerConnection, request: Request) -> Response | None:
        if "Upgrade" in request.headers:
            return None
        chat = request.path.rpartition("/")[2]
        messages = [*users[chat], stored[chat]]
        return socket.respond(200, json.dumps({"id": chat, "active": None, "pending": [], "messages": messages}))

    with serve(talk, "127.0.0.1", 0, process_request=history) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
