"""What people write down: the registry, team files, settings, projects; read, checked, written."""
