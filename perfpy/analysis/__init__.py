"""Compute histograms, call trees, stacks, shares and differences from columns of samples. Formats no text.

Modules:

sample_batch     batches of samples with names, for programs
sample_names     columns of names: comm, dso, symbol, srcline, stack
named_samples    all samples as columns, names included
recorded_counts  the counts of a `stat record` file as tallies
function_calls   calls of a function from samples at its entry and return
kernel_latencies  delays on the run queue, and durations of calls, requests and interrupts
counterparts     the same program under two names

Packages: aggregate (fold samples), filters (select samples), samples (columns of samples), callchains (change callchains), sortkeys
(sort keys of reports), entries (options and rows of reports), call_trees, report (tables), differences (of reports), stacks (whole
stacks), annotation (shares within functions), verdict (the numbers of verdicts), sched (switches, delays and run times), locks (waits for
locks), kernel_work (interrupts and work queues), allocations (of the kernel), timechart, why (who waits for whom),
memory (accesses and cache lines), guests (exits of virtual machines).
"""
