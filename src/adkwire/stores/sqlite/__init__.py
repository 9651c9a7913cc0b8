"""The stores in one SQLite file."""
