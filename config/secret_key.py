"""The key that signs cookies: given, or made once and kept beside the data."""

import os
from pathlib import Path

from django.core.management.utils import get_random_secret_key


def kept_in(data_dir: Path) -> str:
    """Return the key kept in `data_dir`, making it first where it can; without that folder, one for this process."""
    path = data_dir / "secret_key"
    if key := _read(path):
        return key
    key = get_random_secret_key()
    if not data_dir.is_dir():
        return key
    draft = path.with_name(f"secret_key.{os.getpid()}")
    try:
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(key)
        # Two processes may start at once: the first to link wins, and both read what it wrote.
        os.link(draft, path)
    except FileExistsError:
        return _read(path) or key
    except OSError:
        return key
    finally:
        draft.unlink(missing_ok=True)
    return key


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
