"""`perfpy report`: its options, its run, its exports, the command."""
