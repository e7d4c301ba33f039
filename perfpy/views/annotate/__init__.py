"""Code with shares of samples: perf annotate's text, pages for terminals, listings of source files."""
