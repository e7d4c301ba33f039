"""Counting: what perf stat does, from events and a target to readings."""
