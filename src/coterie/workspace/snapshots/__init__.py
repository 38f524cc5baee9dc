"""Snapshots of folders around what may change them."""
