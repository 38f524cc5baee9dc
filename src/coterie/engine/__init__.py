"""What runs workflows durably: journal, leases, turns and questions."""
