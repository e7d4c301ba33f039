"""Source lines and inlined calls of addresses, from DWARF debug information.

Modules, from the file to the answers:

addresses          file offsets to addresses
inline_search      functions and inlined calls of a unit
inlined_calls      the functions at addresses of a file
inlined_frames     callchains with frames of inlined calls
functions          functions and inlined calls of a unit by name
symbol_files       source file names from symbol tables
kept_answers       answers cached between runs
debug_info         the debug information of a recording's files
known_lines        resolved lines, for merged profiles
lines/             line programs: addresses to files and lines
units/             the units of debug information: sections, abbreviations, entries and their attributes
"""
