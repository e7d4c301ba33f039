"""Code with shares of samples: perf annotate's text, screens, listings of source files.

Modules:

text         perf annotate --stdio
code_page    a function's lines with heat and jumps
screen       annotate on a terminal
browser      a function's code over the report browser
source_text  annotate --by-line
"""
