"""`python -m perfpy`: the same as the command `perfpy`."""

from perfpy.cli import main

if __name__ == "__main__":
    main()
