"""Addresses to names: address spaces over time, symbol tables, and where the files with them are."""
