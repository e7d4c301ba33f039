"""Measurements: targets and workloads, counters, sampling, and synthesized state of running tasks.

Modules:

targets             option texts -> tasks and CPUs; cgroups: cgroups as targets
workload            the command to measure
opening             events -> open counters, with fallbacks
counter             one counter
overflow_handlers   handlers of overflows
self_monitoring     counters and samples of the calling program
record_options      the options of a recording; option_values: their texts; thread_masks: --threads
control             --control
scheduler_statistics  snapshots of /proc/schedstat (sched stats record)
environment         the machine, for the header's features
dso_hits            the files that samples hit; equal_samples: runs of samples of one size
counting            what perf stat does
session             one run of perf record
rings               counters with ring buffers
output              ring buffers -> file
metadata            side-band of running tasks, and the header's features
unwinding           DWARF stacks -> callchains while recording
off_cpu             waits as samples
runtimes            names of code from JIT compilers and interpreters
memory_growth       memory that Python programs allocate and keep (perfpy leaks)
python_frames       Python frames from the memory of CPython
injection           perf inject
"""
