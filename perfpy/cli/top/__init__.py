"""`perfpy top`.

Modules:

command   the command
options   its options
request   options for the library
run       one run: intervals until the end
screen_run  the same on a terminal, with keys
changes   what keys change in a running view
terminal  the terminal: keys in, lines out
"""
