"""The vocabulary: pure data and pure rules, no input or output."""
