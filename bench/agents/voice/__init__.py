"""An agent whose model speaks as often as it is asked to."""
