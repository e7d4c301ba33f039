"""`perfpy trace`: system calls as they happen, or from a recording."""
