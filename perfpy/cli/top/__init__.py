"""`perfpy top`.

Modules:

command   the command
options   its options
request   options for the library
run       one run: intervals until the end
"""
