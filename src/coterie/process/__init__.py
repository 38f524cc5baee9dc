"""Child processes: started under a keeper, spoken to by lines, ended with their whole tree."""
