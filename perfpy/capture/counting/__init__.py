"""Count the events of a target, as perf stat does.

Modules:

planning            events and options -> Plan; metric_choice: -M
plan                Plan, what to measure and how
measurement         runs a Plan; watch: the end of commands and tasks
counters            events opened over tasks and CPUs, enabled, read, closed
tool_values         values that no counter has
count_file          counts -> perf.data
contest             commands run in turns, for --compare
region              perfpy.count; counted: perfpy.counted
"""
