"""Names of code that runtimes generate: switch them on, request them, and store them in the recording.

Modules:

table               the runtimes, and the environment variables that switch names on
programs            the runtime of a command
environment         the environment of a command
choices             the clock and callchains that --jit chooses
attaching           runtimes that are already running; java_attach: HotSpot's attach protocol
session             --jit from the start of a recording to its end
inner_maps          perf maps of ended processes in pid namespaces
keeping             perf maps and jitdumps -> the finished recording; jitted_code: the code in jitdumps
rewriting           the finished recording with added records
cpython             CPython's trampolines
hotspot             frames of HotSpot, from its memory
"""
