"""Rerail's version, as `pyproject.toml` says it."""

import tomllib

from config.environment import BASE_DIR


def _read() -> str:
    with open(BASE_DIR / "pyproject.toml", "rb") as file:
        version: str = tomllib.load(file)["project"]["version"]
    return version


VERSION = _read()
