"""Shares within functions: of instructions, and of lines of source code.

Modules:

annotation     Annotation: the code of a recording's functions
hot_functions  the functions of a report, with the addresses of their samples
annotated      instructions of a function with their samples
source_files   shares of lines of source files
named_lines    source lines in names of runtimes
"""
