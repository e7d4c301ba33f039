"""Unwinding while a recording runs: a second process converts stack copies to callchains."""
