"""`perfpy leaks`: which lines hold the memory of a command at its highest moment, and which keep that of a running process."""
