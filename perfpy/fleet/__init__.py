"""Many recordings: what is folded of each, wherever that is, put together and reported as one."""
