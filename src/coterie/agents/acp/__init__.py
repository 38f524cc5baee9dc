"""Any program that speaks the Agent Client Protocol, version 1: one long-lived process a member."""

from coterie.model.agent import AdapterFacts

ADAPTER = AdapterFacts("acp", "coterie.agents.acp.adapter:AcpAdapter")
