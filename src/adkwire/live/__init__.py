"""A chat's conversation with a live model."""
