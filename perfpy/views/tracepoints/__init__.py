"""The text of tracepoint samples by the kernel's print format, for script, reports and exports.

Modules:

event_text       the texts of many samples of one tracepoint
payloads         payloads as values that reports group by
printer          a print format as functions over columns
conversions      the conversions (%...) of a print format
rows             the raw data of many samples
number_columns   expressions of a print format over many samples
values           the text of single values: strings, masks, flags, addresses
"""
