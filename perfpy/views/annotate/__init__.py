"""Code with shares of samples: perf annotate's text, screens, listings of source files."""
