"""`perfpy annotate`: its options, its run, the command."""
