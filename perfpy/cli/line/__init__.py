"""The command line in perf's manner: parsing, options, help, configuration. perfpy.cli.output prints."""
