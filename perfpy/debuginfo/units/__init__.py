"""The units of debug information: sections, abbreviations, entries and their attributes.

Modules:

dwarf              constants of the DWARF format
leb128             integers of variable length
sections           the debug sections of an ELF file
abbreviations      the forms of DIEs
unit               one unit: header, root, attribute values
index              the units of a file, and those of addresses
split_files        split units (.dwo, .dwp)
ranges             the addresses of a DIE
dies               DIEs as a tree
location_lists     where a variable is at an address
"""
