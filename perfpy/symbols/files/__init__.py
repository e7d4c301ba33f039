"""Files with symbols: ELF files, debug files and debuginfod. Caches: perfpy.symbols.caches.

Modules:

elf                headers, sections, notes and symbol tables as columns
elf_structures     rare structures, read with pyelftools
elf_symbols        the symbols of code and data
plt                names for the procedure linkage table
plt_code           the slots that its entries jump through
elf_reduction      a small ELF file with names and unwind information
build_id_notes     build-ids of files, the kernel and the vdso
debug_files        where files with symbols are searched
debuginfod         debug files from servers
compressed_files   compressed modules and .gnu_debugdata
module_files       kernel modules and their debug files
live_process       files of running processes
shared_files       files that several recordings share
"""
