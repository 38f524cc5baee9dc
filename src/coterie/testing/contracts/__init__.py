"""Contract suites: what every implementation of a port must do.  Subclass one, say how to open."""
