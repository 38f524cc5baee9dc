"""The chat on a terminal: normal scrollback above, a few live lines below."""
