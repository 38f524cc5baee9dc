"""The fixtures of the command line tests."""

from tests.cli.conftest import bare, cli

__all__ = ["bare", "cli"]
