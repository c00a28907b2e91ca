"""GET /jobs."""

from typing import Any

import pytest

from jobs.models import Job
from jobs.selectors import filters
from jobs.states import JobState
from tests import factories
from tests.integration.client import ApiClient, problem_errors


def pages(api: ApiClient, query: str, limit: int) -> list[list[int]]:
    """The ids of page after page, to the last."""
    found, cursor = [], ""
    while True:
        answer = api.get(f"/jobs?{query}&limit={limit}{cursor}").json()
        found.append([job["job_id"] for job in answer["items"]])
        if answer["next"] is None:
            return found
        cursor = f"&cursor={answer['next']}"


def ids(api: ApiClient, query: str = "") -> list[int]:
    return [job["job_id"] for job in api.get(f"/jobs?{query}").json()["items"]]


def made(owner: Any, number: int, **fields: Any) -> list[int]:
    """Ids of new queued jobs, newest first."""
    return [factories.queued(owner, **fields).pk for _ in range(number)][::-1]


def test_jobs_come_newest_first_in_pages_without_gap_or_repetition(api: ApiClient) -> None:
    jobs = made(api.person, 5)
    assert pages(api, "", 2) == [jobs[:2], jobs[2:4], jobs[4:]]
    assert pages(api, "", 5) == [jobs]


def test_a_job_that_comes_while_one_pages_shifts_nothing(api: ApiClient) -> None:
    jobs = made(api.person, 4)
    first = api.get("/jobs?limit=2").json()
    made(api.person, 2)
    second = api.get(f"/jobs?limit=2&cursor={first['next']}").json()
    assert [job["job_id"] for job in [*first["items"], *second["items"]]] == jobs


def test_a_member_lists_its_own_jobs_and_an_operator_all(
    api: ApiClient, other_api: ApiClient, operator_api: ApiClient
) -> None:
    mine, foreign = made(api.person, 1), made(other_api.person, 1)
    assert ids(api) == mine
    assert ids(operator_api) == foreign + mine
    assert ids(operator_api, "owner=bob") == foreign
    assert ids(api, "owner=bob") == []


def test_states_filter_any_of_them(api: ApiClient) -> None:
    jobs = {state: factories.job_in(state, api.person).pk for state in JobState}
    for state, pk in jobs.items():
        assert ids(api, f"state={state}") == [pk]
    wanted = "state=SUCCEEDED&state=QUEUED&state=CANCELLED"
    chosen = sorted((jobs[JobState(name)] for name in ("SUCCEEDED", "QUEUED", "CANCELLED")), reverse=True)
    assert ids(api, wanted) == chosen
    assert pages(api, wanted, 2) == [chosen[:2], chosen[2:]]


def test_who_may_see_nothing_and_whom_nobody_knows_have_empty_lists(api: ApiClient) -> None:
    made(api.person, 1)
    queries = ["", "state=QUEUED", "state=QUEUED&state=FAILED", "q=digits", "q=digits&state=QUEUED&state=FAILED"]
    assert [ids(api, f"owner=nobody&{query}") for query in queries] == [[]] * 5
    api.person.groups.clear()
    assert [ids(api, query) for query in queries] == [[]] * 5


def test_labels_filter_all_of_them(api: ApiClient) -> None:
    both = made(api.person, 1, labels={"team": "vision", "sweep": "7"})
    one = made(api.person, 1, labels={"team": "vision"})
    assert ids(api, "label=team=vision") == one + both
    assert ids(api, "label=team=vision&label=sweep=7") == both
    assert ids(api, "label=sweep") == both
    assert ids(api, "label=team=") == []


def test_q_finds_words_of_the_name_and_the_number(api: ApiClient) -> None:
    digits = made(api.person, 1, name="Handwritten digits 100%")
    other = made(api.person, 1, name="faces")
    assert ids(api, "q=DIGITS") == digits
    assert ids(api, "q=100%25") == digits
    assert ids(api, "q=100_") == []
    assert ids(api, f"q={other[0]}") == other


def test_a_search_looks_at_a_bounded_number_of_jobs_and_goes_on_with_the_next_page(api: ApiClient, monkeypatch) -> None:
    monkeypatch.setattr(filters, "SCANNED", 3)
    wanted = made(api.person, 1, name="needle")
    made(api.person, 7, name="hay")
    assert pages(api, "q=needle", 5) == [[], [], wanted]
    assert pages(api, "q=needle&state=QUEUED&state=FAILED", 5) == [[], [], wanted]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=99999999999999999999999", "limit"),
        ("limit=x", "limit"),
        ("state=queued", "state"),
        ("q=%00", "q"),
        ("owner=%00", "owner"),
        ("label=%00", "label"),
        ("cursor=x", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=%F0%9F%92%A9", "cursor"),
        ("cursor=" + "W" * 501, "cursor"),
        ("cursor=WzFd.", "cursor"),
        ("cursor=W10", "cursor"),
        ("cursor=W1sxXV0", "cursor"),
        ("cursor=WyIxIl0", "cursor"),
        ("cursor=W3RydWVd", "cursor"),
        ("cursor=WzFlOTk5XQ", "cursor"),
        ("cursor=Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5XQ", "cursor"),
    ],
)
def test_a_bad_query_is_refused_by_its_name(api: ApiClient, query: str, field: str) -> None:
    assert set(problem_errors(api.get(f"/jobs?{query}"))) == {field}


def test_a_page_takes_as_many_statements_for_many_jobs_as_for_few(api: ApiClient, statements) -> None:
    def counted() -> int:
        with statements() as seen:
            assert api.get("/jobs?limit=200").status_code == 200
        return len(seen)

    for state in JobState:
        factories.job_in(state, api.person)
    counted()
    few = counted()
    for state in JobState:
        factories.job_in(state, api.person)
    # Token, roles, ids, jobs, and of the queue: pause, workers, exclusions.
    assert counted() == few == 7


def test_no_filter_reads_beyond_the_page(operator_api: ApiClient, statements) -> None:
    """The plans walk an index in the order of the list: none sorts, none reads the whole table."""
    from django.db import connection

    for state in (JobState.QUEUED, JobState.SUCCEEDED):
        factories.job_in(state, operator_api.person)
    for query in ("", "state=QUEUED", "owner=olga", "state=QUEUED&state=SUCCEEDED", "owner=olga&state=QUEUED"):
        with statements() as seen:
            operator_api.get(f"/jobs?{query}")
        walk = next(sql for sql in seen if 'FROM "jobs_job"' in sql)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute(f"EXPLAIN {walk}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "Index" in plan, plan
        assert "Seq Scan on jobs_job" not in plan, plan
    assert Job.objects.exists()
