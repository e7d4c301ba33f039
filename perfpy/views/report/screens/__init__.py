"""Reports for people: on a terminal, in a browser within it, and in notebooks.

Modules:

screen, screen_table         the report on a terminal with the kinds of code, and its tables
hottest, call_lines          files, paths and call trees below the rows
row_functions                what the rows tell about functions: category, caller, source line
fitting                      shortened names
browser, browsed, row_list   --tui: the application, its model, its rows
notebook                     text and HTML in Python
"""
