"""The scheduler's tracepoints as tables: what `perfpy sched` prints.

Modules:

events        the tracepoints of a recording as columns
latency       delays on the run queue, by task
timehist      each switch, with its times
narrowing     filters of timehist
switch_map    the thread of each CPU over time
replay_plan   the recorded load as events of each task
statistics    counters of the scheduler between two snapshots
threads       the threads of a recording in perf's order
summary       run time and idle time of each thread
"""
