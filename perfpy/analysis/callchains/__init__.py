"""Change callchains: from branch records, from copied stacks, without the frames of interpreters, by function.

Modules:

lbr_callchains      callchains from branch records (--call-graph lbr)
user_callchains     the unwinder of copied stacks
interpreter_folding samples of interpreters as samples of the functions they run
functions           merge frames of one function
"""
