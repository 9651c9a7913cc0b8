"""An agent whose model answers as fast as it is asked to."""
