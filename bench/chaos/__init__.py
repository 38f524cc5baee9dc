"""Kills Coterie at random instants and counts what was lost, duplicated or left running."""
