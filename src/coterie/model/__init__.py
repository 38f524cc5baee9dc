"""The domain vocabulary: pure data and rules, without any I/O."""
