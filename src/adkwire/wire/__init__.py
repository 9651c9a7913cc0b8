"""Chunks, messages, frames, and their encoders and decoders. Pure and synchronous; importing it does not import ADK."""
