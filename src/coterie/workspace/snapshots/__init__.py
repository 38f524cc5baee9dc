"""Snapshots of folders around what may change them."""

from coterie.workspace.snapshots.folder_snapshots import FolderSnapshots

__all__ = ["FolderSnapshots"]
