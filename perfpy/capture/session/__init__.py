"""Run one recording from start to end, as `perf record` does."""
