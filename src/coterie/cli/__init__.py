"""The command line: parses, calls `coterie.app`, shows; decides nothing."""
