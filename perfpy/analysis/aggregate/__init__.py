"""Fold samples to distinct rows with their totals, in one process or in several.

Modules, in the order of the data:
"""
