"""`perfpy record`: its options and the command."""
