"""`manage.py submit`: hand a training script in, and follow it if wanted."""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from jobs.commands import rules
from jobs.commands.submission import Submission, submit
from jobs.console import arguments, files, outcome, people
from jobs.console.base import ConsoleCommand
from jobs.models import Priority
from jobs.selectors import access
from jobs.states import ReasonClass


class Command(ConsoleCommand):
    help = (
        "Submit a training script and print the job's id. The script's own arguments come right after FILE; those that "
        f"begin with a dash after `--`, at the end. With --follow: {outcome.EXPLAINED}"
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """As usual, but everything after `--` is the script's, wherever the options stand."""
        self._after_dashes: list[str] = []
        if "--" in argv:
            at = argv.index("--")
            argv, self._after_dashes = argv[:at], argv[at + 1 :]
        super().run_from_argv(argv)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="The training script, a Python file.")
        parser.add_argument("script_args", nargs="*", metavar="ARG", help="An argument of the script.")
        parser.add_argument("--name", help="Default: the file's name.")
        parser.add_argument("--owner", metavar="USER", help="Default: the only superuser, or admin.")
        parser.add_argument("--requirements", type=Path, metavar="FILE", help="Packages it needs, a line each.")
        parser.add_argument("--env", action="append", default=[], type=arguments.pair, metavar="K=V")
        parser.add_argument("--label", action="append", default=[], type=arguments.pair, metavar="K=V")
        parser.add_argument(
            "--worker-label", action="append", default=[], type=arguments.pair, metavar="K=V",
            help="A label that its worker must carry.",
        )  # fmt: skip
        parser.add_argument("--priority", choices=Priority.labels, default=Priority.NORMAL.label)
        parser.add_argument("--max-attempts", type=arguments.count, default=3, metavar="N")
        parser.add_argument(
            "--retry-on", action="append", choices=[kind.value for kind in ReasonClass],
            help="May be given twice; default: lost.",
        )  # fmt: skip
        parser.add_argument("--time-limit", type=arguments.seconds, metavar="S", help="Seconds of training.")
        parser.add_argument("--queue-timeout", type=arguments.seconds, metavar="S", help="Seconds in the queue.")
        parser.add_argument("--checkpoint-seconds", type=arguments.seconds, metavar="S")
        parser.add_argument(
            "--dataset", default="", metavar="NAME",
            help="A shared dataset, or `upload`: the job waits until its own is sent to POST /jobs/ID/upload.",
        )  # fmt: skip
        parser.add_argument("--follow", action="store_true", help="Show its timeline until it has ended.")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = people.owner(self, options["owner"])
        if not access.may_submit(owner):
            raise self.error(f"{owner.username} may not submit jobs: that takes the group member or operator.")
        job = submit(owner, self._submission(options))
        self.say(str(job.pk))
        if options["follow"]:
            sys.exit(outcome.follow(self, job.pk))

    def _submission(self, options: dict[str, Any]) -> Submission:
        requirements = options["requirements"]
        return Submission(
            script=files.read_text(self, options["file"], settings.MAX_SCRIPT_BYTES),
            name=options["file"].name if options["name"] is None else options["name"],
            args=[*options["script_args"], *getattr(self, "_after_dashes", [])],
            env=dict(options["env"]),
            requirements=files.read_text(self, requirements, rules.MAX_REQUIREMENTS) if requirements else "",
            labels=dict(options["label"]),
            worker_labels=dict(options["worker_label"]),
            priority=Priority[options["priority"].upper()],
            max_attempts=options["max_attempts"],
            retry_on=frozenset(options["retry_on"] or [ReasonClass.LOST.value]),
            time_limit_seconds=options["time_limit"],
            queue_timeout_seconds=options["queue_timeout"],
            checkpoint_seconds=options["checkpoint_seconds"],
            dataset_ref=options["dataset"],
        )
