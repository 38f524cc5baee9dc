"""Measurements: figures printed side by side, never asserted by the tests."""
