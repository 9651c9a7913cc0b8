"""ADK events to chunks."""
