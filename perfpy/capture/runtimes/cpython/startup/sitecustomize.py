"""What a Python interpreter that is profiled runs when it starts: perfpy's own part, then the user's sitecustomize.

Any interpreter that is started below `perfpy record --jit` finds this folder on PYTHONPATH, Python 2 and PyPy as
well, so this file is written for all of them. Those with trampolines of their own (3.12 and later) need nothing here.
"""

import sys

_folder = __file__.rpartition("/")[0]
if (3, 8) <= sys.version_info[:2] <= (3, 11) and sys.implementation.name == "cpython":
    try:
        import perfpy_trampolines

        perfpy_trampolines.install()
    except Exception:  # noqa: BLE001 - whatever it is: the program runs as it would without us
        pass
    sys.modules.pop("perfpy_trampolines", None)

# From here on it is as if this folder had not been there: the next sitecustomize on sys.path is the user's. Where
# there is none, site is told what it would have been told, and says nothing.
while _folder in sys.path:
    sys.path.remove(_folder)
sys.path_importer_cache.pop(_folder, None)
_ours = sys.modules.pop("sitecustomize", None)  # kept: Python 2 empties modules that nobody holds
import sitecustomize  # noqa: E402, F401 - the user's, not this file
