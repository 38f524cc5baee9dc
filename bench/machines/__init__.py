"""Separate machines on one computer: their processes, their links to a store, and its tasks."""
