"""`perfpy report`.

Modules:

options         the options
command         the command
run             one run over an open recording
many            many recordings as one report
exports         flame graphs, folded stacks, speedscope, Firefox, pprof
request         the command line, completed by configuration and recording
columns         sort keys, fields, percentages
call_graph      --call-graph
"""
