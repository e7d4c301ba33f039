"""What the scheduler did with threads: switches, wakeups and exits -> intervals off the CPU and times on it.

Low and neutral: recording and reading both use it. The records or tracepoints of switches become rows of one table
(perfpy.scheduling.transitions); these are paired to intervals (perfpy.scheduling.intervals), summed to the time that
each thread ran, or counted to the number of threads that ran at any moment (perfpy.scheduling.running).
"""
