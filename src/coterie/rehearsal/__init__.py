"""Real programs with scripted replies, so that a team can be watched at work free of charge."""
