"""Charts of CPUs and tasks over time, as SVG files.

Modules:

drawing      elements of an SVG file; the only place where texts enter it
task_chart   CPUs and tasks by switches, wakeups and power states
io_chart     tasks by their input and output
"""
