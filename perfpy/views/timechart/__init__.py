"""Draw charts of tasks, CPUs, input and output as SVG files, with perf's text.

Modules:

task_chart     CPUs and tasks
power_rows     idle states and frequencies in the rows of CPUs
wakeup_lines   lines from row to row
io_chart       input and output
drawing        times to pixels, the head of the file, sizes of texts
"""
