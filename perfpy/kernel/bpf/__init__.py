"""BPF programs: those that are loaded, and perfpy's own.

Modules:

loaded_programs   the programs that the kernel has loaded, for side-band records
code              programs as instructions
loading           loads programs, and creates their maps
"""
