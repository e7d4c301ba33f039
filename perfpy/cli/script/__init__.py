"""`perfpy script`.

Modules:

options     the options
command     the command
run         one run over an open recording
programs    -s, --py, -g, -l, and the scripts of an installed perf
"""
