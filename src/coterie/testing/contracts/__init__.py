"""Contract suites for the implementations of ports: subclass one and fill in what is abstract."""
