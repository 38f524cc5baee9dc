"""Child processes: started under a keeper, spoken to line by line, ended with their whole tree."""
