"""The files of users as modules: `files.mine` is `mine.py` in the first folder of the module search that has one.

A process of a DataLoader that is spawned, not forked, imports by name what it is sent. It has the module search of the
process that started it, and so finds the file again.
"""

import sys

__path__ = sys.path  # a module with a path is a package, and this is where its modules are looked for
