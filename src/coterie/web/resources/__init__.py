"""One router for each resource of the API."""
