"""The agent that answers when no other is given: tools, pictures, and a model that needs no network."""
