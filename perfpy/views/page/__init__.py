"""The page: a profile as one HTML file that a browser shows without a network.

Modules:

page          the HTML with style, scripts and data
profile_data  stacks and samples for the scripts
code_data     code of hot functions and files
verdict       notes on the accuracy of the profile
"""
