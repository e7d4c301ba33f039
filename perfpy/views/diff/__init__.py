"""Changes between recordings: perf diff's text, screens and JSON.

Modules:

text         perf diff's lines
screen       two recordings on a terminal
json         differences as JSON
groups       two groups of recordings
groups_json  the same as JSON
"""
