"""Points in programs and their variables, as definitions for the kernel's dynamic probes.

Modules, from the text to the definition:

grammar          texts -> points, arguments, ranges of lines, filters of names
sites            points -> places in programs and in the kernel
variables        variables at a site -> the kernel's fetch expressions
problems         errors, with perf's exit statuses
definitions      the text that defines a probe, and its parts
naming           names of groups and events
neighbours       names that resemble a misspelt one
plans            the definitions of one request
requests         requests to plans
"""
