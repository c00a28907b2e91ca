"""The form by which a person submits a job: text as people write it, into what the command takes."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.http import QueryDict

from jobs.commands import rules
from jobs.commands.datasets import UPLOAD
from jobs.commands.submission import Submission
from jobs.models import Priority
from jobs.selectors import datasets
from jobs.states import ReasonClass

T = TypeVar("T")

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)?", re.IGNORECASE)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TOO_LARGE = "The script is larger than 2 MiB. Larger data belongs into a dataset or a package."

FIELD_OF = {"training_script": "script", "time_limit_seconds": "time_limit"}
"""Where the form shows what the command says of a field, as far as its name differs."""


class Choice(models.TextChoices):
    """Priorities by name."""

    LOW = "LOW", "Low"
    NORMAL = "NORMAL", "Normal"
    HIGH = "HIGH", "High"


def _lines(rows: int, placeholder: str) -> forms.Textarea:
    attributes = {"rows": rows, "placeholder": placeholder, "class": "code", "spellcheck": "false"}
    return forms.Textarea(attrs=attributes)


def _datasets() -> list[tuple[str, str]]:
    """Asked anew for each form."""
    shared = [(name, name) for name in datasets.names()]
    return [("", "None"), (UPLOAD, "Its own, to be sent after submitting"), *shared]


class SubmissionForm(forms.Form):
    """Takes apart what was written and asks the command's own rules, so that all errors are told at once."""

    use_required_attribute = False

    name = forms.CharField(
        label="Name", required=False, max_length=rules.MAX_NAME, strip=True,
        widget=forms.TextInput(attrs={"placeholder": "untitled", "autocomplete": "off"}),
    )  # fmt: skip
    script = forms.CharField(
        label="Training script", required=False, strip=False,
        help_text="Python, up to 2 MiB. It saves to output/ what a later attempt shall find there.",
        widget=_lines(16, "import rerail\n\nfor epoch in rerail.progress(range(30)):\n    …"),
    )  # fmt: skip
    script_file = forms.FileField(
        label="…or a file", required=False, allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".py,text/x-python,text/plain"}),
        help_text="Takes the place of the text above.",
    )  # fmt: skip
    dataset_ref = forms.ChoiceField(
        label="Dataset", required=False, choices=_datasets,
        help_text="The script finds it in $RERAIL_DATASET_DIR. One of its own is sent on the job's page.",
    )  # fmt: skip
    args = forms.CharField(
        label="Arguments", required=False, help_text="As in a shell, with quotes where they hold spaces.",
        widget=forms.TextInput(attrs={"placeholder": "--epochs 30 --lr 3e-4", "class": "mono", "autocomplete": "off"}),
    )  # fmt: skip
    requirements = forms.CharField(
        label="Requirements", required=False, strip=False, widget=_lines(4, "scikit-learn\ntorch==2.9"),
        help_text="One to a line, as pip takes them.",
    )  # fmt: skip
    env = forms.CharField(
        label="Environment", required=False, strip=False, widget=_lines(4, "WANDB_MODE=offline"),
        help_text="NAME=value, one to a line. Values are handed to the script and never shown again.",
    )  # fmt: skip
    labels = forms.CharField(
        label="Labels", required=False, widget=_lines(2, "team=vision"), help_text="key=value, one to a line."
    )
    priority = forms.ChoiceField(
        label="Priority", choices=Choice.choices, initial=Choice.NORMAL, widget=forms.RadioSelect
    )
    max_attempts = forms.IntegerField(
        label="Attempts", initial=3, min_value=1, max_value=rules.MAX_ATTEMPTS,
        help_text="How often it may be tried before it counts as failed.",
    )  # fmt: skip
    retry_on = forms.MultipleChoiceField(
        label="Try again after", required=False, initial=[ReasonClass.LOST], widget=forms.CheckboxSelectMultiple,
        choices=[(ReasonClass.LOST, "a lost worker"), (ReasonClass.FAILED, "an error of the script")],
    )  # fmt: skip
    time_limit = forms.CharField(
        label="Time limit", required=False, help_text="Of training alone, such as 90 s, 45 min or 12 h.",
        widget=forms.TextInput(attrs={"placeholder": "none", "autocomplete": "off"}),
    )  # fmt: skip

    too_large = False
    """Set where the script is beyond the limit."""

    def clean_args(self) -> list[str]:
        try:
            taken_apart = shlex.split(self.cleaned_data["args"])
        except ValueError as error:
            raise forms.ValidationError(f"This can't be taken apart: {str(error).lower()}.") from error
        return _ruled(taken_apart, rules.args)

    def clean_env(self) -> dict[str, str]:
        return _ruled(_pairs(self.cleaned_data["env"], "NAME=value"), rules.env)

    def clean_labels(self) -> dict[str, str]:
        pairs = _pairs(self.cleaned_data["labels"], "key=value")
        return _ruled({key: value.strip() for key, value in pairs.items()}, rules.labels)

    def clean_time_limit(self) -> float | None:
        written = self.cleaned_data["time_limit"].strip()
        if not written:
            return None
        match = _DURATION.fullmatch(written)
        if match is None:
            raise forms.ValidationError("Write a time such as 90 s, 45 min or 12 h.")
        return _ruled(float(match[1]) * _UNIT_SECONDS[(match[2] or "s")[0].lower()], rules.seconds)

    def clean(self) -> dict[str, Any]:
        file = self.cleaned_data.get("script_file")
        try:
            # Browsers send textareas with the line ends of Windows; a file is taken as it is.
            script = self._read(file) if file else self.cleaned_data.get("script", "").replace("\r\n", "\n")
        except forms.ValidationError as error:
            self.add_error("script_file", error)
            return self.cleaned_data
        if len(script.encode(errors="replace")) > settings.MAX_SCRIPT_BYTES:
            self._refuse_size("script_file" if file else "script")
        self.cleaned_data["script"] = script
        if file:
            self._keep(script)
        return self.cleaned_data

    def submission(self) -> Submission:
        """What the valid form asks for."""
        given = self.cleaned_data
        return Submission(
            script=given["script"],
            name=given["name"],
            args=given["args"],
            env=given["env"],
            requirements=given["requirements"].replace("\r\n", "\n"),
            labels=given["labels"],
            priority=Priority[given["priority"]],
            max_attempts=given["max_attempts"],
            retry_on=frozenset(given["retry_on"]),
            time_limit_seconds=given["time_limit"],
            dataset_ref=given["dataset_ref"],
        )

    def show(self, errors: Mapping[str, str]) -> None:
        """Put what the command says beside the fields that it means."""
        for name, error in errors.items():
            self.add_error(FIELD_OF.get(name, name), error)

    def _read(self, file: UploadedFile) -> str:
        if (file.size or 0) > settings.MAX_SCRIPT_BYTES:
            self._refuse_size("script_file")
            return ""
        try:
            return str(file.read().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise forms.ValidationError("This file is not text in UTF-8.") from error

    def _refuse_size(self, field: str) -> None:
        self.too_large = True
        if field not in self.errors:
            self.add_error(field, TOO_LARGE)

    def _keep(self, script: str) -> None:
        # Browsers give no file back to a form that is shown again, so what was in it stays as text.
        data = self.data.copy() if isinstance(self.data, QueryDict) else QueryDict(mutable=True)
        data["script"] = script
        self.data = data


def _ruled(value: T, rule: Callable[[T], str | None]) -> T:
    if wrong := rule(value):
        raise forms.ValidationError(wrong)
    return value


def _pairs(text: str, form: str) -> dict[str, str]:
    """The lines of a text as names and values; empty lines are skipped."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign:
            raise forms.ValidationError(f"Line {number} is not of the form {form}.")
        if name.strip() in found:
            raise forms.ValidationError(f"Line {number} names {name.strip()} a second time.")
        found[name.strip()] = value
    return found
