"""A recording rewritten with more in it: `perf inject`."""
