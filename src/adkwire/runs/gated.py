"""The records of calls, made from what the plugin sees of them when they first come by."""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from adkwire.gate.client_tool import ClientTool
from adkwire.gate.policy import Decision
from adkwire.gate.records import PendingCall, State, bind
from adkwire.runs.sessions import ChatKey


class Place(NamedTuple):
    """Whose call, in which chat, for which message."""

    key: ChatKey
    message: str
    invocation: str
    branch: str | None
    mark: dict[str, Any]


@dataclass
class Seen:
    """What the plugin knows of a call from when it first came by."""

    place: Place
    tool: BaseTool
    args: dict[str, Any]
    decision: Decision


def offered(seen: Seen, call_id: str) -> PendingCall:
    """The record of a call that goes to the browser unasked."""
    tool, place = seen.tool, seen.place
    return PendingCall(
        user=place.key.user,
        chat=place.key.chat,
        call=call_id,
        message=place.message,
        tool=tool.name,
        state=State.OFFERED,
        input=seen.args,
        bound=bind(seen.args),
        browser=isinstance(tool, ClientTool),
        parameters=schema_of(tool),
        output=tool.output if isinstance(tool, ClientTool) else None,
        retry=seen.decision.retry,
        invocation=place.invocation,
        branch=place.branch,
    )


def asked_call(seen: Seen, question: types.FunctionCall, branch: str | None) -> PendingCall:
    """The record of a call that a person is asked about, as the question puts it."""
    about = question.args or {}
    original: dict[str, Any] = about["originalFunctionCall"]
    confirmation: dict[str, Any] = about.get("toolConfirmation") or {}
    by_gate = seen.decision.action == "ask"
    return msgspec.structs.replace(
        offered(seen, original["id"]),
        state=State.ASKED,
        ask=question.id,
        input=original.get("args") or {},
        hint=confirmation.get("hint") or "",
        payload=confirmation.get("payload"),
        # A tool that asks from inside would ask again whatever was granted.
        grant=seen.decision.grant if by_gate else "never",
        branch=branch,
    )


def schema_of(tool: BaseTool) -> dict[str, Any] | None:
    """The JSON schema of a tool's arguments, as its declaration gives it."""
    if isinstance(tool, ClientTool):
        return tool.parameters
    declaration = tool._get_declaration()  # pyright: ignore[reportPrivateUsage] - there is no public way
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        return cast("dict[str, Any]", declaration.parameters_json_schema)
    if declaration.parameters is None:
        return {"type": "object", "properties": {}}
    return declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
