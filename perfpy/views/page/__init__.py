"""The page: a profile as one HTML file that a browser shows without a network. The page of trace has the same frame and style.

The folder `scripts` has its JavaScript: model is arithmetic, views is what is drawn, and main joins the two.
"""
