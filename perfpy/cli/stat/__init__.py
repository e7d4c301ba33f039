"""`perfpy stat`."""
