"""What this machine has to offer."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Memory and free disk in MB (of 2^20 bytes), and CPUs this process may use."""

    ram_mb: int
    disk_mb: int
    cpus: int


def of_this_machine(scratch: Path) -> Capacity:
    """What the machine has, and what is free where executions have their folders."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Capacity(
        ram_mb=psutil.virtual_memory().total // MB,
        disk_mb=shutil.disk_usage(scratch).free // MB,
        cpus=cpus,
    )
