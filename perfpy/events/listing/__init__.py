"""The events that perfpy list shows.

Modules:

inventory           all events and metrics of this machine, by kind
list_filter         which of them the words of a command line choose
availability        which of them can be opened
"""
