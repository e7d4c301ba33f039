"""Counts as text, CSV, JSON and a table for terminals, and comparisons of runs.

Modules:

text         perf stat's text
csv_text     fields with a separator (-x)
json_text    one JSON object for each count (-j)
screen       the table on a terminal
comparison   `stat --compare`: text, CSV, JSON and box plots
"""
