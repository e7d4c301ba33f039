"""The text of `perfpy kwork`, byte for byte perf 6.12's.

Modules:

work_tables    tables of run times and delays
history_lines  each run on a line
usage_lines    tasks by the CPU time that they used
"""
