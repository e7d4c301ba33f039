"""Addresses -> source lines and inlined calls: what DWARF debug information says of code."""
