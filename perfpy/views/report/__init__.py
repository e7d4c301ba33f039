"""Show reports in pipes, on terminals, and as JSON.

Modules:

text, table_text, column_text    perf report --stdio: report (also -H), table, columns
block_text                       --total-cycles
callchain_text                   call trees in perf's styles
thread_counts                    -T
tips                             the last line
share_colour                     perf's colours of shares
json                             a report as JSON
screens/                         reports for people: terminal, --tui, notebooks
"""
