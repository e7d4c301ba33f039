"""Demangle names, within limits of time and size.

Modules:

demangle        names of C++, Rust, OCaml and Java, as perf prints them
managed_names   names of OCaml and Java
name_budget     whether a name may be demangled
cxx_sizes       the size of a demangled C++ name
rust_sizes      the size of a demangled Rust name
name_reader     the offset in a name, and its numbers
name_size       sizes with unknown template arguments
short_names     abbreviated names for screens
"""
