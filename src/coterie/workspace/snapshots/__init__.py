"""Snapshots of folders before and after whatever may change them."""
