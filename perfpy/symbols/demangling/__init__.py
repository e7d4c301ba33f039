"""Demangle names, within limits of time and size."""
