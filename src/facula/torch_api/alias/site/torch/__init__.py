"""The doorway of child processes: their `import torch` comes here, and finds facula.

Takes the folder above on the path (`facula.install_as_torch` puts it into `PYTHONPATH`). Gives the
module `facula` in its own place. Keeps true: no name of its own is left behind.
"""

import facula

facula.install_as_torch()
