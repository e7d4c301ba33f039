"""BPF programs: perfpy's own, and all that the kernel has loaded.

Modules:

loaded_programs   the programs that the kernel has loaded, for side-band records
code              programs as instructions
loading           loads programs, and creates their maps
"""
