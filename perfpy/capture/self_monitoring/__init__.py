"""Counters and samples of the calling program, for Python: no file, no workload.

Modules:

counter_group       counters that are read together
all_counters        all counters of the calling thread
event_stream        samples of running events without a file
live_samples        one of these samples
"""
