"""A live conversation in the terminal: type messages, read answers, approve calls; the audio goes into a file.

adkwire serve examples/approval_agent.py
python examples/live_client.py http://127.0.0.1:8000 my-chat answer.wav
"""

import asyncio
import json
import sys
import uuid
import wave
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_PROTOCOL = Subprotocol("adkwire.live.v1")
_HEAD = 8
"""Bytes before the audio in a binary frame."""


class Conversation:
    """A live socket on which each message is answered before the next one is sent."""

    def __init__(self, socket: ClientConnection, sound: wave.Wave_write) -> None:
        self._socket = socket
        self._sound = sound
        self._calls: dict[str, str] = {}
        self._browser: set[str] = set()
        """Ids of browser calls: their arguments are streamed, and `tool-input-available` asks the page to run them."""

    async def say(self, text: str) -> None:
        """Send a message and print the answer."""
        message = {"id": uuid.uuid4().hex, "role": "user", "parts": [{"type": "text", "text": text}]}
        await self.send("message", data={"messages": [message]})
        async for received in self._socket:
            if isinstance(received, bytes):
                self._sound.writeframes(received[_HEAD:])
            elif await self._is_end(json.loads(received)):
                return

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a frame."""
        await self._socket.send(json.dumps({"type": kind, "version": "1.0", **fields}))

    async def _is_end(self, frame: dict[str, Any]) -> bool:
        if frame["type"] == "chunk":
            await self._show(frame["chunk"])
        elif frame["type"] in ("notice", "error"):
            print(f"({frame.get('text') or frame.get('errorText')})")
        return frame["type"] == "end" or (frame["type"] == "error" and "requestId" in frame)

    async def _show(self, chunk: dict[str, Any]) -> None:
        match chunk["type"]:
            case "text-delta":
                print(chunk["delta"], end="", flush=True)
            case "text-end":
                print()
            case "tool-input-start":
                self._calls[chunk["toolCallId"]] = f"{chunk['toolName']} "
                self._browser.add(chunk["toolCallId"])
            case "tool-input-delta":
                self._calls[chunk["toolCallId"]] += chunk["inputTextDelta"]
            case "tool-input-available" if chunk["toolCallId"] in self._browser:
                await self._decline(chunk["toolCallId"])
            case "tool-input-available":
                self._calls[chunk["toolCallId"]] = f"{chunk['toolName']} {json.dumps(chunk['input'])}"
            case "tool-approval-request":
                await self._ask(chunk["toolCallId"])
            case _:
                pass

    async def _ask(self, call: str) -> None:
        print(f"May it {self._calls.get(call, call)}? (y/n) ", end="", flush=True)
        status = "approved" if (await read_line()).startswith("y") else "rejected"
        await self.send("tool_result", data={"toolCallId": call, "status": status})

    async def _decline(self, call: str) -> None:
        print(f"({self._calls[call]} is for a browser, and this is a terminal)")
        await self.send("tool_result", data={"toolCallId": call, "error": "This client is a terminal, not a browser."})


async def read_line() -> str:
    """Return the next line of the input; empty at its end."""
    return await asyncio.to_thread(sys.stdin.readline)


async def main(server: str, chat: str, file: str) -> None:
    """Send each line of the input as a message."""
    address = f"{server.replace('http', 'ws', 1)}/api/live?chat={chat}"
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 24_000, 0, "NONE", ""))
        async with connect(address, subprotocols=[_PROTOCOL]) as socket:
            conversation = Conversation(socket, sound)
            while line := (await read_line()).strip():
                await conversation.say(line)
            await conversation.send("close")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"{__doc__}\nGive the server, the chat and a file for the sound.")
    asyncio.run(main(*sys.argv[1:]))
