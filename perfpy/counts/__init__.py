"""The arithmetic of counting, shared by the measuring and the reading half. Imports no numpy.

Modules:

aggregation     readings of counters -> one row for each event and CPU, core, socket, thread
tally           the rows of one printing, with their ratios and noise
ratios          the number beside a count: CPUs utilized, insn per cycle, events per second
formulas        expressions of metrics; metrics: their values
spread          mean, deviation and outliers of repeated runs
significance    the Mann-Whitney test between two sets of runs
comparison      two sets of runs, compared counter by counter
named_counts    counts by event name, which the Python API returns
"""
