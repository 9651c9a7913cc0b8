"""Measures adkwire against its peers, side by side: `python -m bench`, or `make bench`."""
