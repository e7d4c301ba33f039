"""The texts of `perfpy probe`: points, arguments, ranges of lines, filters of names.

Modules:

words            the words of a definition
points           points: function, offset, return, line, pattern, marker
arguments        arguments: variables with members, registers, types
line_ranges      ranges of source lines
name_filters     filters of names: 'foo* & !bar'
"""
