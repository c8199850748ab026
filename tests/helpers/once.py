"""Values that take seconds to make, made once for all processes of pytest-xdist."""

import os
import pickle
import tempfile
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock

# The folder of such values. It goes when the tests end.
FOLDER = "DPSCALE_MADE_ONCE"
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def new_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=os.environ[FOLDER]))


def once(make: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Let one process call the function, and the others read from a file what it returned for the same arguments."""

    @wraps(make)
    def made(*arguments: Arguments.args, **options: Arguments.kwargs) -> Value:
        call = f"{make.__module__}.{make.__qualname__} {arguments} {options}"
        file = Path(os.environ[FOLDER], sha256(call.encode()).hexdigest())
        with FileLock(f"{file}.lock"):
            if not file.exists():
                file.write_bytes(pickle.dumps(make(*arguments, **options)))
        value: Value = pickle.loads(file.read_bytes())
        return value

    return made
