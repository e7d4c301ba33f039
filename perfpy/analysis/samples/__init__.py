"""Columns of one batch of samples: frames, callchains, fingerprints, and further dimensions.

Modules:

sample_view          a batch with its events, tasks and symbols
dimensions           the numbers that histograms group by
fingerprints         64-bit hashes that distinguish samples
task_dimensions      tasks at the moments of samples
locations            frames as arrays, in perf's order
functions            merge frames of one function
callchains           raw callchains -> ids of distinct chains
interpreter_folding  samples of interpreters as samples of the functions they run
lbr_callchains       callchains from branch records (--call-graph lbr)
user_callchains      the unwinder of copied stacks
branches             a row for each branch record
source_texts         source lines as texts
parallelism          running threads, and shares of the wall clock
wait_events, wait_reasons    time off the CPU
wall_clock           times of day
cgroup_namespaces    cgroup namespaces of threads over time
hit_dsos             the files that samples hit
"""
