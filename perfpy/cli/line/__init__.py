"""Reading a command line in perf's manner: parser, options, help, configuration, terminal."""
