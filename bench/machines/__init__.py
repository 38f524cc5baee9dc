"""Machines of one's own on one computer: their processes, their lines to a store, and its tasks."""
