"""Source lines and inlined calls of addresses, from DWARF debug information.

Modules, from the file to the answers:

dwarf              constants of the DWARF format
leb128             integers of variable length
sections           the debug sections of an ELF file
abbreviations      the forms of DIEs
unit               one unit: header, root, attribute values
units              the units of a file, and those of addresses
split_files        split units (.dwo, .dwp)
ranges             the addresses of a DIE
addresses          file offsets to addresses
inline_search      functions and inlined calls of a unit
inlined_calls      the functions at addresses of a file
inlined_frames     callchains with frames of inlined calls
dies               DIEs as a tree
functions          functions and inlined calls of a unit by name
location_lists     where a variable is at an address
line_header        headers of line programs
line_operations    the operations of a line program, as columns
line_program       line programs to rows
line_files         paths of the files of a line program
statements         addresses of lines, lines of addresses
line_table         the file and line of addresses in a unit
source_lines       the file and line of addresses in a file
symbol_files       source file names from symbol tables
kept_answers       answers cached between runs
debug_info         the debug information of a recording's files
known_lines        resolved lines, for merged profiles
"""
