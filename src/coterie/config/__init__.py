"""Read, check and write the files that people edit: the registry, teams, settings, projects."""
