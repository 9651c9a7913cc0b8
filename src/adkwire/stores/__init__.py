"""The stores beside the ADK session: stream log, gate store and signals, in memory and in a SQLite file."""
