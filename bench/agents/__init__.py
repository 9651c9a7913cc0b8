"""Agents that every server under measurement serves alike."""
