"""Kills Coterie at random instants and counts what was lost, doubled or left running."""
