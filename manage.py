#!/usr/bin/env python
"""Rerail's command line."""

import os
import sys


def main() -> None:
    from config import environment

    try:
        environment.read()
    except environment.BadEnvironment as error:
        sys.exit(f"rerail: {error}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
