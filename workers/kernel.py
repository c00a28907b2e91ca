"""Calls that Python's `os` does not have (3.11), for the launcher and for `hardening`."""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
LINUX = sys.platform.startswith("linux")

libc = ctypes.CDLL(None, use_errno=True)


class LaunchError(Exception):
    """One sentence about why the script could not be started."""


def call(what: str, function: str, *args: object) -> None:
    """Call into libc; failure becomes a sentence that begins with `what`."""
    if getattr(libc, function)(*args) != 0:
        raise LaunchError(f"{what}: {os.strerror(ctypes.get_errno())}")


def prctl(option: int, value: int) -> None:
    """Does nothing off Linux."""
    if LINUX:
        call(f"prctl {option} failed", "prctl", option, ctypes.c_ulong(value), 0, 0, 0)
