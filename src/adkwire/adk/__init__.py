"""What depends on how Google ADK works inside."""
