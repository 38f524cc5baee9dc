"""searchCode: finds the places in a workspace that answer a question in plain words."""
