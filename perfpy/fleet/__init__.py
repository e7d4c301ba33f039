"""Many recordings as one: fold each where its file is, merge the results, and report them.

Modules, in the order of the data:

recordings        Recordings: what perfpy.open_many() returns
opening           open a recording by path or URL
remote            recordings at URLs
pace              timeouts for slow file systems and servers
folding           fold one recording to a portable profile
portable          portable profiles: folded recordings without machine-specific numbers
merging           merge portable profiles
cluster           fold and merge on a Dask cluster
worker_settings   the configuration and symbol servers that workers of a cluster use
transfer          profiles and options as bytes for a cluster
transfer_checks   checks of received profiles and options
late_symbols      resolve addresses that other machines could not
merged_profile    a merged profile as the input of reports and stacks
group_difference  compare two groups of recordings
many_samples      the samples of many recordings as columns
"""
