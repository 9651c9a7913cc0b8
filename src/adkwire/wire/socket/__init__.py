"""The frames of the chat socket and of the live socket."""
