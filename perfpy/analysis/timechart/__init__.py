"""Compute what CPUs and tasks did over time, for a chart.

Modules:

task_history   the intervals of tasks as running, waiting for a CPU, blocked
power          idle states and frequencies of CPUs
io_calls       the input and output of tasks, as system calls
"""
