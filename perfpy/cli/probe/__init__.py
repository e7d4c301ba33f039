"""`perfpy probe`: dynamic probes in programs and the kernel.

options    the options
command    the choice of the action
targets    the probed program or kernel
adding     -a and -D: definitions, and their way to the kernel
existing   -l and -d: the kernel's probes
listings   -L, -V and -F: lines, variables and functions
ending_signals  what happens to probes when a signal ends the process
temporary_probes  probes that exist for one measurement (-e uprobe:PROGRAM:FUNCTION)
"""
