"""What changed between recordings: perf diff's text, and JSON."""
