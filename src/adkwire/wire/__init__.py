"""What travels: chunks, messages, encoder, decoder. Pure and synchronous; importing it does not import ADK."""
