"""Files with symbols: ELF files, debug files and debuginfod. Caches of symbols and build-ids."""
