"""Disassemble functions by objdump, or by capstone.

Modules:

disassembler    functions of a recording to lines of code
function_code   where a function's code is
kernel_memory   code of the running kernel (/proc/kcore)
objdump         binutils' objdump
by_capstone     the library capstone
source_lines    source lines between instructions, as objdump prints them
code_lines      a disassembler's text to lines
x86_lengths     lengths of x86 instructions
"""
