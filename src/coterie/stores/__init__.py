"""Where everything durable is kept: one package per back end, each a `Storage`."""
