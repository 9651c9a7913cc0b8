"""How a message ends: complete, failed, aborted or interrupted."""

from typing import TYPE_CHECKING

from adkwire.wire.chunks import FinishReason, Json
from adkwire.wire.encode.event_parts import enum_name
from adkwire.wire.failures import Explain, Failure

if TYPE_CHECKING:
    from google.adk.events.event import Event

ABORTED = "INVOCATION_ABORTED"
"""ADK's error code of a run that was stopped."""
_NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"

FINISH_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "LANGUAGE": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
}
"""Gemini's finish reasons and the AI SDK's for them; all others become `other`."""


class Outcome:
    """The end that the events of a message announce so far."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        """The error of the last event that failed, until the agent recovers from it."""
        self.aborted = False
        """True when the run was stopped."""
        self._finish_reason: FinishReason = "stop"
        self._interrupted: float | None = None
        """When the model was interrupted last, in seconds since 1970."""
        self._has_failed = False
        """True once an event has failed, also when the agent went on after it."""

    def learn(self, event: "Event") -> None:
        """Take the finish reason, the interruption and the error of an event."""
        if event.finish_reason is not None:
            self._finish_reason = FINISH_REASONS.get(enum_name(event.finish_reason), "other")
        if event.interrupted:
            self._interrupted = max(self._interrupted or 0.0, event.timestamp)
        if event.error_code == ABORTED:
            self.aborted = True
        elif event.error_code and event.error_code != _NO_CONTENT and not _is_cut_short(event):
            self.failure = Failure(event.error_code, event.error_message or "")
            self._has_failed = True

    def recover(self, event: "Event", began: float) -> None:
        """Forget earlier errors, because the agent went on; `began` is when the content of the event began.

        Content of an interrupted event is no recovery. Content that began before an interruption does not end it.
        """
        if not event.interrupted:
            self.failure, self.aborted = None, False
            if self._interrupted is not None and began >= self._interrupted:
                self._interrupted = None

    def as_metadata(self, explain: Explain, *, waiting: bool) -> dict[str, Json]:
        """Return the metadata that says how the message ended; `waiting` when a call of the last step is pending.

        A message that has failed may go on, when a call of it is answered or run again. Clients merge metadata, so
        what they were told of the failure is overwritten by null.
        """
        told: dict[str, Json] = {"ended": None, "error": None} if self._has_failed else {}
        if self.aborted:
            return {**told, "ended": "stopped"}
        if self.failure is not None:
            return {"ended": "failed", "error": {"code": self.failure.code, "text": explain(self.failure)}}
        return told if self._interrupted is None or waiting else {**told, "ended": "interrupted"}

    def finish_reason(self, *, waiting: bool) -> FinishReason:
        """Return the reason for the `finish` chunk; `waiting` when a call of the last step is pending."""
        if self.aborted:
            return "interrupted"
        if waiting:
            return "tool-calls"
        return self._finish_reason if self._interrupted is None else "interrupted"


def _is_cut_short(event: "Event") -> bool:
    """Return True if the error only repeats why the model stopped early; its content until then is an answer."""
    has_content = event.content is not None and bool(event.content.parts)
    return has_content and event.error_code == enum_name(event.finish_reason)
