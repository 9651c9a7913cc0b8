"""A real Chromium behind a development proxy that rewrites Host, and beside it: what it sends decides who is let in."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.browser import find_chromium
from tests.patience import PATIENCE
from tests.servers import serve

SCRIPT = """<!doctype html><script>
const api = new URLSearchParams(location.search).get("api") ?? location.origin;
const socket = () => new Promise((resolve) => {
  const one = new WebSocket(api.replace("http", "ws") + "/api/chat/ws");
  one.onopen = () => { one.close(); resolve("open"); };
  one.onerror = () => resolve("refused");
});
const status = async (path, options) => (await fetch(api + path, options).catch(() => ({ status: "refused" }))).status;
const message = { id: "u1", role: "user", parts: [{ type: "text", text: "hello" }] };
const post = { method: "POST", headers: { "content-type": "application/json" } };
const found = {
  early: await socket(),
  post: await status("/api/chat", { ...post, body: JSON.stringify({ id: "c", message }) }),
  get: await status("/api/chats"),
  socket: await socket(),
};
await fetch("/result", { method: "POST", body: JSON.stringify(found) });
</script>""".replace("<script>", '<script type="module">')


class PageServer:
    """Serves the script; forwards `/api` to a server whose name it puts into Host, and leaves Origin as it is."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.url = ""
        self.result: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.partition(" ")[2].startswith("/api/"):
                await self._forward(head, reader, writer)
            else:
                await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith("POST /result"):
            [length] = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
            self.result.set_result(json.loads(await reader.readexactly(int(length.partition(":")[2]))))
        page = SCRIPT.encode() if head.startswith(("GET /?", "GET / ")) else b""
        form = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        writer.write((form % len(page)).encode() + page)
        await writer.drain()

    async def _forward(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [line for line in head.split("\r\n") if not line.lower().startswith(("host:", "connection: keep"))]
        lines[1:1] = [f"Host: {self._target}", *(["Connection: close"] if "Upgrade:" not in head else [])]
        host, _, port = self._target.partition(":")
        upstream, forward = await asyncio.open_connection(host, int(port))
        forward.write("\r\n".join(lines).encode())
        sending = asyncio.create_task(_pipe(reader, forward))
        try:
            await _pipe(upstream, writer)
        finally:
            sending.cancel()
            forward.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def page_server(target: str) -> AsyncGenerator[PageServer]:
    page = PageServer(target)
    server = await asyncio.start_server(page.serve, "127.0.0.1", 0)
    page.url = f"http://localhost:{server.sockets[0].getsockname()[1]}/"
    try:
        yield page
    finally:
        server.close()


async def found_by_chromium(url: str, page: PageServer, profile: Path) -> dict[str, object]:
    """Open an address in a Chromium and return what its page has found out."""
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ]
    chromium = await asyncio.create_subprocess_exec(
        find_chromium(), *options, url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            return await page.result
    finally:
        chromium.terminate()
        await chromium.wait()


async def test_a_proxy_of_this_machine_needs_nothing_and_a_page_beside_it_gets_nothing(tmp_path: Path) -> None:
    with serve(cwd=tmp_path) as server:
        target = urlsplit(server.url).netloc
        async with page_server(target) as proxy, page_server(target) as other:
            behind = await found_by_chromium(proxy.url, proxy, tmp_path / "behind")
            # The first socket comes before anything has told that this origin forwards to us.
            assert behind == {"early": "refused", "post": 200, "get": 200, "socket": "open"}
            beside = await found_by_chromium(f"{other.url}?api={server.url}", other, tmp_path / "beside")
            assert set(beside.values()) == {"refused"}
