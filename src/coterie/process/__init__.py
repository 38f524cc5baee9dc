"""Child processes: started under a keeper, used line by line, ended with their whole tree."""
