"""Mangled names -> names for people, within a budget of time and size: demangle.py asks a library, name_budget.py whether it may."""
