"""The agents' own homes: what each finds there, written by us, a module for each agent."""
