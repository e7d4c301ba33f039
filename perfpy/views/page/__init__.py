"""The page: a profile as one HTML file that a browser shows without a network.

What enters: stacks with single samples, annotated functions, and what is said of the recording. What leaves: the text of a page.
"""
