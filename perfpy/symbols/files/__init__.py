"""Files that hold symbols: ELF, notes, plt, caches, debug files, debuginfod."""
