"""The text of tracepoints' samples, as the kernel's print format has it, for script, reports and exports.

event_text          the text of many samples of one tracepoint; payloads: as values that reports group by
printer             a print format as functions of columns; conversions: what stands after % in it
rows, number_columns, values   the raw data of many samples: bytes, columns of numbers, single values
ip_address          internet addresses in raw data
"""
