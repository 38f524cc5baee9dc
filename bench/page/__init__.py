"""The page in a real browser: what it takes from the commit of an event until it is shown."""
