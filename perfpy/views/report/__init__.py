"""A report, for a terminal, a pipe, a browser within the terminal, or as JSON."""
