"""Who may see and do what. Every query that answers a person starts here."""

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import QuerySet

from jobs.models import Job

Person = User | AnonymousUser | AbstractBaseUser

VIEWER, MEMBER, OPERATOR = "viewer", "member", "operator"


def roles(person: Person) -> frozenset[str]:
    """The groups of a person that mean something here; superusers are operators. One query, remembered on `person`."""
    if not person.is_authenticated:
        return frozenset()
    known: frozenset[str] | None = getattr(person, "_rerail_roles", None)
    if known is None:
        names = person.groups.values_list("name", flat=True)  # type: ignore[attr-defined]
        known = frozenset(names) & {VIEWER, MEMBER, OPERATOR}
        if getattr(person, "is_superuser", False):
            known |= {OPERATOR}
        person._rerail_roles = known  # type: ignore[attr-defined]
    return known


def may_submit(person: Person) -> bool:
    return bool(roles(person) & {MEMBER, OPERATOR})


def is_operator(person: Person) -> bool:
    return OPERATOR in roles(person)


def visible_jobs(person: Person) -> QuerySet[Job]:
    """The jobs a person may see: a viewer and an operator all, a member its own."""
    held = roles(person)
    if held & {VIEWER, OPERATOR}:
        return Job.objects.all()
    return Job.objects.filter(owner_id=person.pk) if MEMBER in held else Job.objects.none()


def may_act_on(person: Person, job: Job) -> bool:
    """Whether a person may cancel, requeue or change a job: a member its own, an operator any."""
    held = roles(person)
    return OPERATOR in held or (MEMBER in held and job.owner_id == person.pk)


def changeable_jobs(person: Person) -> QuerySet[Job]:
    """The jobs that a person may act on, as `may_act_on` says."""
    held = roles(person)
    if OPERATOR in held:
        return Job.objects.all()
    return Job.objects.filter(owner_id=person.pk) if MEMBER in held else Job.objects.none()
