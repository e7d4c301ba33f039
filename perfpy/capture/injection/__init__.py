"""`perf inject`: rewrite a recording with more data.

Modules:

injecting       JIT-compiled code and build-ids
converting      stack copies -> callchains
"""
