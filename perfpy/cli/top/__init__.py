"""`perfpy top`.

Modules:

command   the command
options   its options
request   options for the library
run       one run: intervals until the end
screen_run  the same on a terminal, with keys
terminal  the terminal: keys in, lines out
"""
