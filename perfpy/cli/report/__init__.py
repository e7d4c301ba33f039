"""`perfpy report`."""
