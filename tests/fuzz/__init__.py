"""A fuzzer of our own: every command and the API over damaged files, 100 or more runs a second.

    python -m tests.fuzz --runs 10000 --seed 1

seeds makes small files of every kind, mutation and recordings damage them,
targets turns them into command lines, server runs each in a child of a process
that has everything imported, verdict says how it ended. What was found is made
small (minimise) and kept in found/, which a test replays.
"""
