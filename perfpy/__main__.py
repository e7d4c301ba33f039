"""`python -m perfpy`: the same as the command `perfpy`."""

if __name__ == "__main__":
    import _signal  # type: ignore[import-not-found]  # as in perfpy.cli

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # before anything is imported: see perfpy.cli

    from perfpy.cli import main

    main()
