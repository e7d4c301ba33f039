"""Files that are kept between runs: symbols, columns, build-ids.

Modules:

symbol_cache       the cache of parsed symbols
elf_cache          symbols of large ELF files between runs
column_files       cached columns between runs
build_id_cache     perf's build-id cache
build_id_archive   archives of the build-id cache
"""
