"""The pytest plugin: performance budgets of tests.

Modules:

pytest_plugin   markers, options, fixture, table
budgets         the rules of the marker perf_budget, and the file of baselines
measured_test   a test function under counters
"""
