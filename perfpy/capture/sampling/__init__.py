"""Sampling: what perf record does, from events and a target to a perf.data."""
