"""Adapters: one per kind of agent, each speaking to that agent and to no other layer."""
