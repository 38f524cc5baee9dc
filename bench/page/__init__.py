"""The page in a real browser: how long it takes from the commit of an event until it is shown."""
