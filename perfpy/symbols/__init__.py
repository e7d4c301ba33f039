"""Resolve addresses to names: address spaces over time, symbol tables, and the files with symbols."""
