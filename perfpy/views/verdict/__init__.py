"""Verdicts: one to three sentences that begin each view, made from its numbers.

Modules:

sentence        sentences and their words
function_names  names of functions in sentences
profile         the verdict on a recording
cpu_rules       sentences about the use of CPUs
wait_rules      sentences about waits
loop_rules      the sentence about blocked event loops
change_rules    the verdict on two recordings (diff)
run_rules       the verdict on programs run in turns (stat --compare)
"""
