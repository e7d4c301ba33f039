"""`perfpy top`.

Modules:

command   the command
options   its options
start     the start, until the first table: priority, no garbage collection
request   options for the library
run       one run: intervals until the end
screen_run  the same on a terminal, with keys
keys      what keys do: other rows, call trees, a file of what was seen
terminal  the terminal: keys in, lines out
"""
