"""Resolve addresses to names: address spaces over time, symbol tables, and the files with symbols.

Modules:

dso                 dsos and their kinds
mapped_names        meanings of mappings' file names
symbolizer          columns of addresses to frames, and frames to symbols
frame_table         the distinct frames and symbols of a recording
known_frames        resolved frames, for merged profiles
symbol_table        the sorted symbols of one dso
loader              symbol tables, loaded on first use
interning           ids for 64-bit keys
interpreters        callchains without the interpreter's own frames
short_callchains    the note on callchains that end after one frame
tasks               threads, processes and address spaces over time
providers           symbols of the kernel, perf maps and jitdumps
files               ELF files, debug files, debuginfod
caches              what is kept between runs: symbols, columns, build-ids
demangling          names of C++, Rust, OCaml and Java
"""
