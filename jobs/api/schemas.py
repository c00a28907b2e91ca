"""What the API takes. Types and shapes are checked here; what values may be is said in `jobs.commands.rules`."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from jobs.commands import rules
from jobs.commands.bulk import MOST
from jobs.commands.submission import Submission
from jobs.models import Priority
from jobs.selectors.filters import Filter
from jobs.selectors.pages import BIGGEST, MAX_LIMIT
from jobs.states import JobState

Item = TypeVar("Item")


def _storable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "It must not hold a NUL character.")
    return text


def _not_yet(sentence: str) -> BeforeValidator:
    """Take nothing but what stands for leaving the field out."""

    def check(value: Any) -> Any:
        if value not in (None, "", 0):
            raise PydanticCustomError("not_yet", sentence)
        return value

    return BeforeValidator(check)


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _spelled(given: Any) -> Any:
    return str(given) if type(given) is int and abs(given) <= BIGGEST else given


Text = Annotated[str, AfterValidator(_storable)]
JobId = Annotated[int, Field(ge=1, le=BIGGEST)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="How many items at most.")]
Cursor = Annotated[str | None, Field(max_length=500, description="`next` of the page before.")]
State = Annotated[JobState, Field(strict=False)]
Labels = Annotated[dict[str, str], Field(max_length=rules.MAX_LABELS)]
PriorityName = Literal["low", "normal", "high"]
Seconds = Annotated[float, Field(gt=0, le=rules.MAX_SECONDS, allow_inf_nan=False)]
Unused = Annotated[int, _not_yet("Choosing workers by this is not supported yet; leave it out.")]


class Body(BaseModel):
    """What is sent: no unknown fields, no guessing at types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PageOf(BaseModel, Generic[Item]):
    """Some items; `next` is the `cursor` of the page after them, or null."""

    model_config = ConfigDict(from_attributes=True)

    items: list[Item]
    next: str | None


class Resources(Body):
    """What a worker must offer."""

    gpus: Unused = 0
    gpu_memory_mb: Unused = 0
    ram_mb: Unused = 0
    disk_mb: Unused = 0
    labels: Labels = {}


class JobIn(Body):
    """A request to train."""

    training_script: str = Field(min_length=1, description="The script's text, at most 2 MiB.")
    name: str = Field("", max_length=rules.MAX_NAME)
    args: list[str] = Field([], max_length=rules.MAX_ARGS)
    env: dict[str, str] = Field({}, description="Handed to the script; the values are never shown again.")
    requirements: str = Field("", max_length=rules.MAX_REQUIREMENTS, description="Lines of a requirements file.")
    resources: Resources = Resources()
    labels: Labels = {}
    priority: PriorityName = "normal"
    max_attempts: int = Field(3, ge=1, le=rules.MAX_ATTEMPTS)
    retry_on: list[Literal["lost", "failed"]] = ["lost"]
    time_limit_seconds: Seconds | None = None
    queue_timeout_seconds: Seconds | None = None
    checkpoint_seconds: Seconds | None = None
    dataset_ref: Text | None = Field(
        None, max_length=200, description="A shared dataset's name, or `upload`: the job waits for POST …/upload."
    )
    source: Annotated[None, _not_yet("Files are not supported yet; send the text in training_script.")] = None
    entry_point: Annotated[None, _not_yet("Files are not supported yet; send the text in training_script.")] = None
    stall_timeout_seconds: Annotated[None, _not_yet("Finding stalls is not supported yet; leave it out.")] = None
    dedupe_key: Annotated[str | None, _not_yet("Deduplication is not supported yet; leave it out.")] = None
    on_duplicate: Annotated[str | None, _not_yet("Deduplication is not supported yet; leave it out.")] = None
    from_checkpoint: str | None = Field(
        None, max_length=40, description="A checkpoint of another job to begin from, such as `1042/7`."
    )

    def submission(self) -> Submission:
        return Submission(
            script=self.training_script,
            name=self.name,
            args=self.args,
            env=self.env,
            requirements=self.requirements,
            labels=self.labels,
            worker_labels=self.resources.labels,
            priority=Priority[self.priority.upper()],
            max_attempts=self.max_attempts,
            retry_on=frozenset(self.retry_on),
            time_limit_seconds=self.time_limit_seconds,
            queue_timeout_seconds=self.queue_timeout_seconds,
            checkpoint_seconds=self.checkpoint_seconds,
            from_checkpoint=self.from_checkpoint,
            dataset_ref=self.dataset_ref or "",
        )


class JobChange(Body):
    """What may be changed of a job; what is left out stays."""

    name: str = Field("", min_length=1, max_length=rules.MAX_NAME)
    labels: Labels = {}
    priority: PriorityName = "normal"


class RequeueIn(Body):
    """Where an ended job begins again."""

    from_checkpoint: Annotated[str, BeforeValidator(_spelled), Field(max_length=40)] = Field(
        default="latest", description="`latest`, `none`, or a checkpoint of this job such as `1042/7`, or its number."
    )


class FilterIn(Body):
    """Jobs by what they are; all that is given must hold."""

    state: Annotated[list[State], BeforeValidator(_listed)] = []
    owner: Text | None = None
    q: Text = ""
    label: Annotated[list[Text], BeforeValidator(_listed)] = Field([], description="`key=value`, or a key alone.")

    def filter(self) -> Filter:
        return Filter(states=self.state, owner=self.owner, q=self.q, labels=self.label)


class BulkIn(Body):
    """Which jobs: `ids`, or a `filter`."""

    ids: Annotated[list[JobId], Field(max_length=MOST)] | None = None
    filter: FilterIn | None = None


class BulkRequeueIn(BulkIn):
    """Which jobs, and where they begin again."""

    from_checkpoint: Literal["latest", "none"] = "latest"
