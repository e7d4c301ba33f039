"""The code of samples as text: instructions, blocks between branches, and source lines.

Modules:

branch_text        branch stacks: brstack, brstacksym, brstackoff
branch_counters    counts between branches: brcntr
branch_code        instructions between branches: brstackinsn
instruction_text   instructions of samples: insn, insnlen, disasm
code_at            the code at frames
source_code        source code below samples: srccode
"""
