"""Columns of one batch of samples: frames, fingerprints, and further dimensions. Changed callchains:
perfpy.analysis.callchains.

Modules:

sample_view          a batch with its events, tasks and symbols
dimensions           the numbers that histograms group by
fingerprints         64-bit hashes that distinguish samples
row_hashes           64-bit hashes of rows of numbers
task_dimensions      tasks at the moments of samples
locations            frames as arrays, in perf's order
callchains           raw callchains -> ids of distinct chains
branches             a row for each branch record
source_texts         source lines as texts
parallelism          running threads, and shares of the wall clock
wait_events, wait_reasons    time off the CPU
time_of_day          times of day (--sort tod)
cgroup_namespaces    cgroup namespaces of threads over time
hit_dsos             the files that samples hit
"""
