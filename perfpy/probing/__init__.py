"""Points in programs and their variables, as definitions for the kernel's dynamic probes.

Modules, from the text to the definition:

words            the words of a definition
points           the grammar of points: function, offset, return, line, pattern, marker
arguments        the grammar of arguments: variables with members, registers, types
line_ranges      the grammar of ranges of source lines
name_filters     filters of names: "foo* & !bar"
problems         errors, with perf's exit statuses
program          the probed file: symbols, units, address conversions
resolution       points to sites: addresses in functions
site_search      functions, lines and patterns in a program
source_text      the source lines of a program
markers          SDT markers (USDT) of a program
variables        the variables in scope at a site
locations        location expressions to memory and registers
fetch_types      DWARF types to the kernel's types, and to C text
members          members of structures, elements of arrays
fetching         arguments to the kernel's fetch expressions
kernel_points    points in the kernel, by kallsyms or vmlinux
definitions      the text that defines a probe, and its parts
naming           names of groups and events
neighbours       names that resemble a misspelt one
plans            the definitions of one request
requests         requests to plans
line_listing     source lines that can be probed
variable_listing variables as text
site_names       addresses to points
"""
