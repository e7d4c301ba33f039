"""`perfpy script`: its options, its run, programs that it calls, the command."""
