"""How long tests wait for what must come: only something that never comes takes so long, on the slowest of machines."""

PATIENCE = 60.0
"""Seconds for an answer, or for a process to end."""
START_PATIENCE = 180.0
"""Seconds in which an interpreter of its own loads all there is."""
