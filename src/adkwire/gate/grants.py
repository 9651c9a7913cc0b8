"""Standing grants: what the gate keeps of one, and the line of the audit when it is taken back."""

import msgspec
from msgspec import UNSET, UnsetType

from adkwire.gate.records import AnswerScope, AuditEntry, CallRecord
from adkwire.stores.base import GrantRow
from adkwire.wire.chunks import Json
from adkwire.wire.javascript import iso


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A standing approval: what it covers, and with which call it was given."""

    id: int = 0
    tool: str
    scope: AnswerScope
    chat: str = ""
    """The chat in which it was given; empty when that is not known."""
    same_arguments: bool = False
    """True if it covers only calls with the arguments `input`."""
    input: Json | UnsetType = UNSET
    call: str = ""
    at: float | None = None


_decoder = msgspec.json.Decoder(Grant)


def grant_with(call: CallRecord, scope: AnswerScope, at: float) -> Grant:
    """Return the grant that an approval of a call gives."""
    same_arguments = call.grant == "same-arguments"
    return Grant(
        tool=call.tool,
        scope=scope,
        chat=call.chat,
        same_arguments=same_arguments,
        input=call.final_args if same_arguments else UNSET,
        call=call.call,
        at=at,
    )


def grant_of(row: GrantRow) -> Grant:
    """Read a grant from its row. Rows of earlier releases have nothing but the name of what is granted."""
    if row.data:
        return msgspec.structs.replace(_decoder.decode(row.data), id=row.id)
    tool, _, args_hash = row.what.partition(" ")
    return Grant(
        id=row.id,
        tool=tool,
        scope="chat" if row.chat else "always",
        chat=row.chat,
        same_arguments=bool(args_hash),
    )


def revocation(grant: Grant, actor: str, at: float) -> AuditEntry:
    """Return the line of the audit for a grant that was taken back."""
    return AuditEntry(
        at=iso(at),
        actor=actor,
        call=grant.call,
        tool=grant.tool,
        input=None if grant.input is UNSET else grant.input,
        verdict="revoked",
        scope=grant.scope,
        outcome="asks again",
    )
