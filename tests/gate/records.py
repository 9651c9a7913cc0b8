"""Calls at the gate, a clock that tests turn, and the gate itself on a store."""

from typing import Any

from msgspec.structs import replace

from adkwire.gate.gate import ToolGate
from adkwire.gate.policy import Policy
from adkwire.gate.records import AuditEntry, CallRecord, Echo, State, hash_args
from adkwire.stores.base import GateStore

ANN, CHAT = "ann", "chat"
ARGS = {"amount": 5}
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["amount"],
}


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def asked(call: str = "c1", args: dict[str, Any] | None = None, **more: Any) -> CallRecord:
    """A payment that a person is asked about."""
    args = ARGS if args is None else args
    fields: dict[str, Any] = {
        "user": ANN,
        "chat": CHAT,
        "call": call,
        "message": "m1",
        "tool": "pay",
        "state": State.ASKED,
        "input": args,
        "args_hash": hash_args(args),
        "ask": f"ask-{call}",
        "grant": "tool",
        "parameters": SCHEMA,
    }
    return CallRecord(**{**fields, **more})


def asked_of_browser(call: str = "c1", **more: Any) -> CallRecord:
    """A browser call that needs an approval."""
    fields: dict[str, Any] = {"browser": True, "tool": "where", **more}
    return asked(call, **fields)


def offered(call: str = "c1", **more: Any) -> CallRecord:
    """A browser call that needs no approval."""
    fields: dict[str, Any] = {"state": State.OFFERED, "ask": None, "grant": "never", **more}
    return asked_of_browser(call, **fields)


def echo_of(call: CallRecord, **changed: Any) -> Echo:
    """Return what a client repeats of a call; `changed` fields differ."""
    return Echo(call.message, call.tool, call.ask, call.input)._replace(**changed)


class GateInTest:
    """A gate on the store of a test, with a clock and the calls that its listener has heard of."""

    def __init__(self, store: GateStore, policy: Policy | None = None, **more: Any) -> None:
        self.clock = Clock()
        self.heard: list[CallRecord] = []
        self.gate = ToolGate(store, policy or Policy(), clock=self.clock, changed=self.heard.append, **more)

    async def open(self, call: CallRecord, seconds: float | None = None) -> CallRecord:
        return await self.gate.open(call, seconds)

    async def put(self, state: State, call: CallRecord | None = None, **changes: Any) -> CallRecord:
        """A call that is in this state, however it came there."""
        call = call or asked()
        await self.gate.open(replace(call, state=state, **changes), 0)
        return await self.at(call.call)

    async def at(self, call: str = "c1", chat: str = CHAT) -> CallRecord:
        found = await self.gate.get(ANN, chat, call)
        assert found is not None
        return found

    async def state(self, call: str = "c1", chat: str = CHAT) -> State:
        return (await self.at(call, chat)).state

    async def audit(self, chat: str = CHAT) -> list[tuple[str, str, str]]:
        """Return actor, verdict and outcome of every line of the audit."""
        return [(line.actor, line.verdict, line.outcome) for line in await self.lines(chat)]

    async def lines(self, chat: str = CHAT) -> list[AuditEntry]:
        return await self.gate.audit(ANN, chat)
