"""Disassemble functions by objdump, or by capstone."""
