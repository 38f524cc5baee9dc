"""The tools of the built-in agent, and the permission rules and sandboxes that constrain them."""
