"""Any program that speaks the Agent Client Protocol, version 1: one long-lived process a member."""

from coterie.agents.acp.adapter import AcpAdapter

__all__ = ["AcpAdapter"]
