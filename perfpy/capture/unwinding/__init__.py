"""Unwinding while a recording runs: a second process that turns stack copies into callchains."""
