"""GET /executions/{id}/logs."""

import pytest
from django.db import connection

from jobs.commands import logs
from tests import factories
from tests.integration.client import ApiClient, problem_errors

CHUNKS = (b"epoch 1\n", b"\xff\x00half \xe2\x82", b"\xac\nthe end\n")
WHOLE = b"".join(CHUNKS)


@pytest.fixture
def path(api: ApiClient) -> str:
    lease = factories.lease(factories.running(api.person))
    offset = 0
    for chunk in CHUNKS:
        offset = logs.append(lease, offset, chunk)
    return f"/executions/{lease.label}/logs"


def test_the_log_is_answered_byte_by_byte_as_it_was_printed(api: ApiClient, path: str) -> None:
    response = api.get(path)
    assert response.content == WHOLE
    assert response["X-Next-Offset"] == response["X-Log-Bytes"] == str(len(WHOLE))
    assert response["Content-Type"].startswith("text/plain")


def test_one_reads_on_from_any_byte(api: ApiClient, path: str) -> None:
    for after in range(len(WHOLE) + 3):
        response = api.get(f"{path}?after={after}")
        assert response.content == WHOLE[after:]
        assert response["X-Next-Offset"] == str(max(after, len(WHOLE)))


def test_pieces_of_any_size_make_the_whole(api: ApiClient, path: str) -> None:
    for limit in (1, 3, 8, 100):
        read, offset = b"", 0
        while offset < len(WHOLE):
            response = api.get(f"{path}?after={offset}&limit={limit}")
            assert 0 < len(response.content) <= limit
            read += response.content
            offset = int(response["X-Next-Offset"])
        assert read == WHOLE


def test_an_execution_that_printed_nothing_has_an_empty_log(api: ApiClient) -> None:
    response = api.get(f"/executions/{factories.lease(factories.running(api.person)).label}/logs")
    assert (response.status_code, response.content, response["X-Next-Offset"]) == (200, b"", "0")


def test_reading_a_piece_reads_no_more_chunks_than_hold_it(api: ApiClient, path: str, statements) -> None:
    with statements() as seen:
        api.get(f"{path}?after=9&limit=4")
    read = next(sql for sql in seen if 'FROM "jobs_logchunk"' in sql)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({read}) AS chunks")
        assert cursor.fetchone() == (1,)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=99999999999999999999", "limit=0", "limit=99999999"])
def test_a_bad_query_is_refused_by_its_name(api: ApiClient, path: str, query: str) -> None:
    assert set(problem_errors(api.get(f"{path}?{query}"))) == {query.split("=")[0]}
