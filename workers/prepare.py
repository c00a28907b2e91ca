"""The program that makes a script's environment, inside the sandbox: building a package runs its code.

Runs as ``python -I -S -B prepare.py UV ENVIRONMENT SCRIPT REQUIREMENTS``: SCRIPT carries inline metadata, REQUIREMENTS
is a requirements file, ``-`` stands for either. ENVIRONMENT is a folder named after all that goes into it, so it is
made once; a second call finds it ready and asks neither uv nor the network. uv's own words go to stderr.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator

CONFIGURATION = "RERAIL_UV_CONFIGURATION"
READY = ".rerail-ready"
UNFIT_PYTHON = "incompatible with the script's Python requirement"


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def configuration(text: str | None) -> list[int]:
    """uv's configuration file as a descriptor, so that its credentials never lie where a script can read them."""
    if text is None:
        os.environ["UV_NO_CONFIG"] = "1"  # or uv would look for one in the folders around the execution's
        return []
    descriptor = os.memfd_create("uv.toml", 0)
    os.write(descriptor, text.encode())
    os.environ["UV_CONFIG_FILE"] = f"/proc/self/fd/{descriptor}"
    return [descriptor]


def run(command: list[str], descriptors: list[int]) -> None:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace", pass_fds=descriptors)
    assert process.stderr is not None
    unfit = False
    for line in process.stderr:
        sys.stderr.write(line)
        sys.stderr.flush()
        unfit = unfit or UNFIT_PYTHON in line
    if process.wait() != 0 or unfit:
        sys.exit(1)


def make(uv: str, environment: str, script: str, requirements: str) -> None:
    descriptors = configuration(os.environ.pop(CONFIGURATION, None))
    os.environ["VIRTUAL_ENV"] = environment
    if script == "-":
        run([uv, "venv", "--quiet", "--clear", environment], descriptors)
    else:
        run([uv, "sync", "--active", "--script", script], descriptors)
    if requirements != "-":
        run([uv, "pip", "install", "--python", environment, "-r", requirements], descriptors)


def main() -> None:
    uv, environment, script, requirements = sys.argv[1:]
    os.makedirs(os.path.dirname(environment), exist_ok=True)
    ready = os.path.join(environment, READY)
    with locked(environment + ".lock"):
        if not os.path.exists(ready):
            make(uv, environment, script, requirements)
            with open(ready, "w"):
                pass


if __name__ == "__main__":
    main()
