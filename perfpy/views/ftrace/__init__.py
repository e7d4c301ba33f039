"""Tables of durations from the lines of the tracer function_graph.

Modules:

graph_line   one line of the tracer
histogram    the durations of one function
profile      totals, means and longest durations of functions
"""
