"""How tasks are carried out, one workflow each, found by name."""
