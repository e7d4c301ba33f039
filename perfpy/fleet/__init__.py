"""Many recordings as one: fold each where its file is, merge the results, and report them.

Modules, in the order of the data:
"""
