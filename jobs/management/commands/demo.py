"""`manage.py demo`: a real training job from submission to its result, before your eyes."""

import os
import time
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from jobs.commands.submission import Submission, submit
from jobs.console import arguments, display, following, outcome, people
from jobs.console.base import ConsoleCommand
from jobs.console.following import Away, Polling
from jobs.models import Job
from jobs.selectors.following import Look, last_value
from jobs.states import JobState
from stack import borrowed
from stack.errors import CannotStart

SCRIPT = settings.BASE_DIR / "examples" / "digits.py"
PACE = "DIGITS_SECONDS_PER_EPOCH"
ENOUGH = 0.93
"""The share of unseen digits that the example must read."""


class Command(ConsoleCommand):
    help = (
        "Train the example on a running stack, or on one started for it, and show the timeline. Exit code 0 only if "
        f"the job ended SUCCEEDED and reads at least {ENOUGH:.0%} of the digits that it had not seen."
    )
    cannot = 1

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--timeout", type=arguments.seconds, default=600.0, metavar="S", help="Default: 600.")
        parser.add_argument(
            "--seconds-per-epoch", default=os.environ.get(PACE) or "0.2", type=arguments.seconds, metavar="S"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with borrowed.available(settings.RERAIL, self.say):
                job = self._submit(options["seconds_per_epoch"])
                last = display.watch(self._news(job, options["timeout"]), display.of(self))
                self._judge(last)
        except CannotStart as error:
            raise self.error(str(error)) from None

    def _submit(self, pace: float) -> Job:
        submission = Submission(
            name="Reading digits", script=SCRIPT.read_text("utf-8"), env={PACE: str(pace)}, labels={"demo": "digits"}
        )
        job = submit(people.owner(self, None), submission)
        self.say(f"Job {job.pk} trains {SCRIPT.relative_to(settings.BASE_DIR)}:")
        return job

    def _news(self, job: Job, timeout: float) -> Iterator[Look | Away]:
        """All that happens to the job; whatever the demo does to it on the way is done between two of these."""
        deadline = time.monotonic() + timeout
        for news in following.follow(Polling(job.pk)):
            yield news
            if time.monotonic() > deadline:
                where = news.state if isinstance(news, Look) else "out of reach"
                raise self.error(f"Job {job.pk} is {where} after {timeout:g} s; the demo waits no longer.")

    def _judge(self, last: Look) -> None:
        """Say how well the model does, by what the job itself reported."""
        if last.state is not JobState.SUCCEEDED:
            outcome.show_last_words(self, last)
            raise self.error(f"Job {last.job_id} ended {last.state}: {last.message}")
        accuracy = last_value(last.job_id, "accuracy")
        if accuracy is None:
            raise self.error(f"Job {last.job_id} succeeded but reported no accuracy.")
        if not accuracy >= ENOUGH:
            raise self.error(f"Its accuracy is {accuracy:.4f}, less than the {ENOUGH} it should reach.")
        self.say(f"Accuracy {accuracy:.4f} on digits it had not seen; {ENOUGH} was to be reached.")
