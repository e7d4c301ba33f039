"""Compute histograms, call trees, stacks, shares and differences from columns of samples. Formats no text.

Modules:

Packages: aggregate (fold samples), filters (select samples), samples (columns of samples), callchains (change callchains), sortkeys
(sort keys of reports), entries (options and rows of reports), call_trees, report (tables), differences (of reports), stacks (whole
stacks), annotation (shares within functions), verdict (the numbers of verdicts), sched (switches, delays and run times), locks (waits for
locks), kernel_work (interrupts and work queues), allocations (of the kernel), timechart, why (who waits for whom),
memory (accesses and cache lines), guests (exits of virtual machines).
"""
