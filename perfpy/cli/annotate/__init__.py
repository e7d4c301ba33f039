"""`perfpy annotate`.

Modules:

options     the options
command     the command
run         one run over an open recording
"""
