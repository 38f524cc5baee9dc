"""searchCode: finds the place in a workspace that answers a question asked in plain words."""
