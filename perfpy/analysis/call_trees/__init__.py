"""Call trees of a report's rows.

Modules:

call_tree           the nodes of a tree, and how they are built from chains
trees               the trees of a table's rows
tree_order          the order of perf's red-black tree
call_names          the names of nodes
"""
