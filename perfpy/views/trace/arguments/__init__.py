"""The arguments of system calls as text.

Modules:

texts           the texts of numbers, names, descriptors and processes
special_texts   the texts of modes, sockets, futexes and dependent arguments
structure_text  the text of structures that arguments point to
unused          arguments that a call does not use
"""
