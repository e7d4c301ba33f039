"""Places in programs and in the kernel where a probe can be.

Modules:

program          the probed file: symbols, units, address conversions
resolution       points to sites: addresses in functions
site_search      functions, lines and patterns in a program
source_text      the source lines of a program
line_listing     source lines that can be probed
site_names       addresses to points
markers          SDT markers (USDT) of a program
kernel_points    points in the kernel, by kallsyms or vmlinux
"""
