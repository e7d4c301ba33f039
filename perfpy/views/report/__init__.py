"""Show reports on terminals, in pipes, in a browser within the terminal, and as JSON.

Modules:

text, table_text, column_text    perf report --stdio: report (also -H), table, columns
block_text                       --total-cycles
callchain_text                   call trees in perf's styles
thread_counts                    -T
tips                             the last line
screen, screen_table             the report on a terminal, and its tables
hottest, call_lines              files, paths and call trees below the rows
kinds_of_code                    own code, libraries, interpreter, runtime and kernel; styles and callers of functions
fitting, share_colour            shortened names; colours
browser, browsed, row_list       --tui: the application, its model, its rows
json, notebook                   JSON; text and HTML in Python
"""
