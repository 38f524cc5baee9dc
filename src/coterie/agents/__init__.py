"""Adapters: one file for each kind of agent, that speaks to it and to no other layer."""
