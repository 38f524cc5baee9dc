"""The houses of the command line's own tests."""

from tests.cli.conftest import bare, cli

__all__ = ["bare", "cli"]
