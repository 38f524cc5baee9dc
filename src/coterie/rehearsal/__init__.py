"""Real programs with scripted replies, so that a team can be seen at work for nothing."""
