"""Any program that speaks Agent Client Protocol version 1: one long-lived process per member."""

from coterie.model.agent import AdapterFacts

ADAPTER = AdapterFacts("acp", "coterie.agents.acp.adapter:AcpAdapter")
