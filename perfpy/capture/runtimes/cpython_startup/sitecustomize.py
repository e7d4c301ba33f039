"""The startup code of a profiled Python interpreter: perfpy's part, then the user's sitecustomize.

Any interpreter started below `perfpy record --jit` finds this folder on PYTHONPATH, including Python 2 and PyPy, so this file
supports all of them. Those with their own trampolines (3.12 and later) need nothing here.
"""

import sys

_folder = __file__.rpartition("/")[0]
if (3, 8) <= sys.version_info[:2] <= (3, 11) and sys.implementation.name == "cpython":
    try:
        import perfpy_trampolines

        perfpy_trampolines.install()
    except Exception:  # noqa: BLE001 - whatever happens, the program must run
        pass
    sys.modules.pop("perfpy_trampolines", None)

# From here on this folder has no effect: the next sitecustomize on sys.path is the user's. If there is none, site gets the same error as
# without this folder, and ignores it.
while _folder in sys.path:
    sys.path.remove(_folder)
sys.path_importer_cache.pop(_folder, None)
_ours = sys.modules.pop("sitecustomize", None)  # referenced, because Python 2 empties modules without references
import sitecustomize  # noqa: E402, F401 - the user's, not this file
