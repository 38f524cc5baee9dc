"""The engine that runs workflows durably: journal, leases, turns and questions."""
