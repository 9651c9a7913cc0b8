"""The work: runs, the bridge between chats and ADK, history."""
