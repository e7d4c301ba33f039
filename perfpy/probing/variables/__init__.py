"""The variables at a site, and the kernel's expressions that fetch them.

Modules:

scope            the variables in scope at a site
variable_listing variables as text
locations        location expressions to memory and registers
fetch_types      DWARF types to the kernel's types, and to C text
members          members of structures, elements of arrays
fetching         arguments to the kernel's fetch expressions
"""
