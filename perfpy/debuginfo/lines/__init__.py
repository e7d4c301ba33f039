"""Line programs: addresses to files and lines, and back.

Modules:

line_header        headers of line programs
line_operations    the operations of a line program, as columns
line_program       line programs to rows
line_table         the file and line of addresses in a unit
line_files         paths of the files of a line program
source_lines       the file and line of addresses in a file
statements         addresses of lines, lines of addresses
"""
