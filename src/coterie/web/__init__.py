"""The HTTP surface: use cases of `app` as resources, one stream of events, and the page."""
