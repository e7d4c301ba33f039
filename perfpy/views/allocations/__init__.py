"""The text of `perfpy kmem`, byte for byte perf 6.12's.

Modules:

slab_lines   tables of objects and their summary
page_lines   tables of pages and their summary
flag_names   short names of the flags of requests (gfp)
"""
