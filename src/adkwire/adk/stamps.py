"""Stamps: adkwire's metadata on the events of a session, `custom_metadata["adkwire"]`.

| in the stamp      | says                                                                                       |
|-------------------|--------------------------------------------------------------------------------------------|
| `message`, `user` | which assistant message the event belongs to, and which user message that answers          |
| `spoken`          | the turn belongs to a conversation by voice                                                |
| `at`              | when the first partial event of it was shown, where that is not the event's own time       |
| `asks`            | of each question: the scopes of a yes, and when it expires                                 |
| `verdicts`        | of each verdict what ADK's yes or no does not say: reason, edited arguments, expired       |
| `outputs`         | which outputs were no objects before ADK made them so                                      |
| `held`            | the event was written for a held call: the run did not pause                               |
| `inner`           | a call of an agent inside a tool, which is shown and which the model does not read         |
| `speech`, `audio` | the text is the transcript of an answer that was cut off; how much sound a turn had        |
| `aside`           | the event belongs to no message                                                            |
| `dropped`         | the event came after its turn was stopped and is not stored                                |

The encoder reads stamps with `stamp_of` and `shown_at` in `wire/encode/event_parts.py`.
"""

from typing import Any

from google.adk.events.event import Event
from google.genai import types

from adkwire.wire.encode.event_parts import STAMP, stamp_of


def turn_stamp(message: str, user: str) -> dict[str, Any]:
    """Return the stamp of every event of a turn."""
    return {"message": message, "user": user}


def add_stamp(metadata: dict[str, Any] | None, stamp: dict[str, Any]) -> dict[str, Any]:
    """Return an event's metadata with `stamp` added to its stamp; what the stamp already has stays."""
    old = metadata or {}
    return {**old, STAMP: {**stamp, **old.get(STAMP, {})}}


def with_inner_call(event: Event) -> Event:
    """Return an event as it was shown: with the call of an agent inside a tool that its stamp keeps."""
    inner: dict[str, Any] | None = stamp_of(event).get("inner")
    if inner is None:
        return event
    content = types.Content.model_validate(inner["content"])
    calls = [part.function_call.id for part in content.parts or () if part.function_call is not None]
    return event.model_copy(update={"content": content, "long_running_tool_ids": calls if inner["browser"] else []})
