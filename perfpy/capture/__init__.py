"""Measurements: targets and workloads, counters, sampling, and synthesized state of running tasks."""
