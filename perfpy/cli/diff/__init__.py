"""`perfpy diff`.

Modules:

options             the options
command             the command: two recordings, or two groups of them
run                 one run over open recordings
groups              one run over two groups
recording_options   the options for each recording: tables, filters, symbols
"""
