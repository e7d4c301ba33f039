"""The page: a profile as one HTML file that a browser shows without a network. The page of trace has the same frame and style.

Modules:

recorded_page the page of one recording, and of the changes between two
page          the HTML with style, scripts and data
profile_data  stacks and samples for the scripts
sample_rows   samples as columns, and levels of detail
packing       columns as compressed text
wait_lanes    how many threads wait for a CPU, and for the locks of each holder
marks         forks, switches, faults and tracepoints
code_data     code of hot functions and files
page_sites    the sites of samples in that code
verdict       notes on the accuracy of the profile
scripts       model: arithmetic; views: what is drawn; main: joins them
"""
