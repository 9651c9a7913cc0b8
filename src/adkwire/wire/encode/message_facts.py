"""The metadata of a message, collected from its events."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from adkwire.wire.chunks import Json
from adkwire.wire.encode.event_parts import enum_name, stamp_of

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.genai import types
    from pydantic import BaseModel


class MessageFacts:
    """The metadata of a message: its author and model, its tokens, its sources."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}
        self._learned_at: dict[str, float] = {}
        """The timestamp of the event that each fact is from."""
        self._usage: dict[str, int] = {}
        self._audio: dict[str, int] = {}

    def learn(self, event: "Event") -> None:
        """Take the metadata of a complete event. Of parallel agents the one that ends last counts."""
        for name, value in _facts_of(event):
            if event.timestamp >= self._learned_at.get(name, 0.0):
                self._facts[name], self._learned_at[name] = value, event.timestamp
        if event.usage_metadata is not None:
            self._add_usage(event.usage_metadata)
        self._add_audio(stamp_of(event).get("audio"))

    def as_metadata(self) -> dict[str, Any]:
        """Return the metadata for `finish`. It is never absent, because clients show the last step only with it."""
        counted = {"usage": self._usage, "audio": self._audio}
        return self._facts | {name: dict(counts) for name, counts in counted.items() if counts}

    def _add_usage(self, usage: "types.GenerateContentResponseUsageMetadata") -> None:
        for name, count in (
            ("inputTokens", usage.prompt_token_count),
            ("outputTokens", usage.candidates_token_count),
            ("totalTokens", usage.total_token_count),
            ("reasoningTokens", usage.thoughts_token_count),
            ("cachedInputTokens", usage.cached_content_token_count),
        ):
            if count:
                self._usage[name] = self._usage.get(name, 0) + count

    def _add_audio(self, audio: Json) -> None:
        for name, count in cast("dict[str, Json]", audio).items() if isinstance(audio, dict) else ():
            if name in ("chunks", "ms") and isinstance(count, int):
                self._audio[name] = self._audio.get(name, 0) + count


def _facts_of(event: "Event") -> Iterator[tuple[str, Json]]:
    if event.author != "user" and _has_answer(event):
        yield "author", event.author
    if event.model_version:
        yield "modelVersion", event.model_version
    if event.finish_reason is not None:
        yield "finishReason", enum_name(event.finish_reason)
    if event.grounding_metadata is not None and (grounding := _dump(event.grounding_metadata)):
        yield "grounding", grounding
    if event.citation_metadata is not None:
        yield "citations", _dump(event.citation_metadata)
    if event.cache_metadata is not None:
        yield "cache", _dump(event.cache_metadata)


def _has_answer(event: "Event") -> bool:
    by_model = event.content is not None and event.content.role != "user"
    return by_model or event.output_transcription is not None


def _dump(model: "BaseModel") -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
