"""The command line: parses, calls `coterie.app` and `coterie.config`, shows; decides nothing."""
