"""Durable storage: one package per back end, each providing a `Storage`."""
