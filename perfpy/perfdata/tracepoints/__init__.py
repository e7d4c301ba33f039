"""The tracepoints of a recording: the fields of their raw data, and their print formats.

Modules:

tracing_data     the TRACING_DATA section
event_format     a tracepoint's `format` file -> fields
field_columns    raw data -> a column per field
print_format     the `print fmt` -> format string and argument expressions
print_tree       the nodes of these expressions
print_constants  constant folding in print formats
"""
