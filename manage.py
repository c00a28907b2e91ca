#!/usr/bin/env python
"""Rerail's command line."""

import os
import sys


def main() -> None:
    from config import environment

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        environment.read()
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except environment.BadEnvironment as error:
        sys.exit(f"rerail: {error}")


if __name__ == "__main__":
    main()
