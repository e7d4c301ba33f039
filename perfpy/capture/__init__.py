"""Running a measurement: targets and workloads, counters, sampling, synthesis of what already runs."""
