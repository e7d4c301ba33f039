"""`perfpy diff`: its options, its run, groups of recordings, the command."""
