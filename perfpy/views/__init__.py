"""Format numbers as text, screens, pages, JSON and exports.

Modules:

Packages: report, diff, annotate, script, stat, list, top, trace (one per command), verdict (the sentences that views begin with), page (the
HTML page), stacks, parquet and convert (exports), scripting (programs for script -s), dump, metadata, records and tracepoints (texts of
records), pmcu (HiSilicon PMCU), sched (tables of the scheduler), latency (durations of calls),
locks (tables of waits), kernel_work (tables of interrupts and work queues), allocations (of the kernel), timechart,
why (who waits for whom), memory (accesses and cache lines), guests (exits of virtual machines),
ftrace (durations of kernel functions).
"""
