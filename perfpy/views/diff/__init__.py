"""Changes between recordings: perf diff's text, screens and JSON."""
