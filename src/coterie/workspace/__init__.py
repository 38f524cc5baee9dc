"""Where members live and work: their folders and what their processes can see."""
