"""`make bench`: measure what the README claims, each figure beside a plain tool in the same run.

The parts run over servers of their own in a temporary folder. Names of groups may be given to run only those.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from stack.servers import embedded
from tests.benchmarks.report import Figure, tell


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("groups", nargs="*", help="starts, first_line, control_plane")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RERAIL_DATA_DIR"] = str(Path(folder, "data"))
        os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
        with embedded(Path(folder, "data"), durable=True):
            figures = _measure(options.groups)
    tell(figures, as_json=options.json)


def _measure(wanted: list[str]) -> list[Figure]:
    import logging

    import django
    from django.core.management import call_command

    django.setup()
    logging.disable(logging.INFO)
    call_command("migrate", verbosity=0)
    from tests.benchmarks import control_plane, first_line, stack

    groups: dict[str, Callable[[], list[Figure]]] = {
        "starts": stack.measure_starts,
        "first_line": first_line.measure,
        "control_plane": control_plane.measure,
    }
    return [figure for name, measure in groups.items() if not wanted or name in wanted for figure in measure()]


if __name__ == "__main__":
    main()
