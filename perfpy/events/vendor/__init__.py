"""Events and metrics that vendors publish.

Modules:

event_files         named events in JSON files (--event-files)
vendor_table        the tables that perfpy brings
table_making        writes these tables
"""
