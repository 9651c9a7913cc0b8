"""A small server of canned streams: it proves that the harness sees what is wrong, without the product."""

import contextlib
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.conformance.records import Chunk, Message

RUN = "run"


@dataclass(frozen=True)
class Script:
    """The bodies of a chat's answers in order (the last one again and again), and what its history then says."""

    bodies: Sequence[bytes]
    stored: Sequence[Message]
    pending: Sequence[Mapping[str, str]] = ()


def sse(*chunks: Chunk, done: bool = True) -> bytes:
    """A well-framed event stream of these chunks."""
    events = [f"id: {RUN}:{n}\ndata: {json.dumps(chunk)}\n\n" for n, chunk in enumerate(chunks)]
    return (": hello\n\n" + "".join(events) + ("data: [DONE]\n\n" if done else "")).encode()


@dataclass
class _Chats:
    scripts: Mapping[str, Script]
    users: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    answered: dict[str, int] = field(default_factory=dict[str, int])

    def answer(self, body: dict[str, Any]) -> bytes:
        chat = body["id"]
        self.users[chat] = [message for message in body["messages"] if message["role"] == "user"]
        count = self.answered.get(chat, 0)
        self.answered[chat] = count + 1
        bodies = self.scripts[chat].bodies
        return bodies[min(count, len(bodies) - 1)]

    def history(self, chat: str) -> bytes:
        script = self.scripts[chat]
        messages = [*self.users[chat], *script.stored]
        return json.dumps({"id": chat, "active": None, "pending": [*script.pending], "messages": messages}).encode()


@contextlib.contextmanager
def serve_stub(scripts: Mapping[str, Script]) -> Generator[str]:
    """Serve these scripts by chat id until the block ends; the base URL."""
    chats = _Chats(scripts)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(chats.answer(body), "text/event-stream")

        def do_GET(self) -> None:
            self._send(chats.history(self.path.rpartition("/")[2]), "application/json")

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-vercel-ai-ui-message-stream", "v1")
            self.send_header("x-adkwire-run", RUN)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the tests say what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
