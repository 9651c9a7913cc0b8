"""The fields of ADK events that the encoder reads, and those that it leaves out, with the reason.

A test compares the two tables with ADK: every field of an event and of its parts must be in one of them, so that no
field of a new release of ADK is dropped by accident.
"""

_LIVE = "live only: read by the live conversation, where it begins or ends turns"
_SPEECH = "live only: about audio, which does not go through the encoder"
_CONTROL = "ADK's own control flow; nothing to show"

MAPPED_FIELDS: dict[str, frozenset[str]] = {
    "Event": frozenset(
        [
            "actions",
            "author",
            "branch",
            "cache_metadata",
            "citation_metadata",
            "content",
            "custom_metadata",
            "error_code",
            "error_message",
            "finish_reason",
            "grounding_metadata",
            "input_transcription",
            "interrupted",
            "long_running_tool_ids",
            "model_version",
            "node_info",
            "output",
            "output_transcription",
            "partial",
            "timestamp",
            "usage_metadata",
        ]
    ),
    "EventActions": frozenset(["artifact_delta", "requested_tool_confirmations", "state_delta", "transfer_to_agent"]),
    "Part": frozenset(
        [
            "code_execution_result",
            "executable_code",
            "file_data",
            "function_call",
            "function_response",
            "inline_data",
            "text",
            "thought",
            "tool_call",
            "tool_response",
        ]
    ),
    "FunctionCall": frozenset(["args", "id", "name", "partial_args", "will_continue"]),
    "FunctionResponse": frozenset(["id", "name", "parts", "response", "will_continue"]),
}
"""The fields that the encoder reads, by class of ADK or genai."""

IGNORED_FIELDS: dict[str, dict[str, str]] = {
    "Event": {
        "avg_logprobs": "a number for evaluation, not for a page",
        "environment_id": "the Interactions API's own bookkeeping",
        "go_away": _LIVE,
        "id": "differs between partial and complete events in live, so it identifies nothing",
        "interaction_id": "the Interactions API's own bookkeeping",
        "interaction_status": _LIVE,
        "invocation_id": "groups the events of a turn in the session, not on the wire",
        "isolation_scope": _CONTROL,
        "live_session_id": _LIVE,
        "live_session_resumption_update": _LIVE,
        "logprobs_result": "large, for evaluation, not for a page",
        "turn_complete": _LIVE,
        "turn_complete_reason": _LIVE,
        "voice_activity": _SPEECH,
    },
    "EventActions": {
        "agent_state": _CONTROL,
        "compaction": "a summary for the model; the page keeps the whole history",
        "end_of_agent": _CONTROL,
        "escalate": _CONTROL,
        "render_ui_widgets": "no standard chunk carries a widget",
        "requested_auth_configs": "the credential request is an ordinary long-running call and is shown as one",
        "rewind_before_invocation_id": "read where history is cut, before events reach the encoder",
        "route": _CONTROL,
        "set_model_response": _CONTROL,
        "skip_summarization": _CONTROL,
        "transfer_reason": "for the next agent; the model's own words are in the call",
    },
    "Part": {
        "audio_transcription": _SPEECH,
        "media_processing": "an instruction to the model",
        "media_resolution": "an instruction to the model",
        "part_metadata": "free-form and provider-side",
        "speech_metadata": _SPEECH,
        "thought_signature": "for the model only; it stays in the session",
        "video_metadata": "an instruction to the model",
    },
    "FunctionCall": {},
    "FunctionResponse": {"scheduling": "tells a live model when to speak"},
}
"""The fields that the encoder leaves out, by class of ADK or genai, and why."""
