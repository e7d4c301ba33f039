"""Show reports in pipes, on terminals, and as JSON."""
