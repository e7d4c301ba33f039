"""Text of memory accesses, for mem and c2c.

Modules:

access_lines       every access on a line
c2c_statistics     counts of all accesses and of shared cache lines
cache_line_table   the cache lines
line_row_tables    the accesses of each cache line
column_table       the layout of these tables
"""
