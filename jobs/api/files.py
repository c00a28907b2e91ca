"""Content from storage as answers: streamed, in parts, or by a redirect to where it lies."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from jobs.api import problems, ranges
from jobs.storage import streams
from jobs.storage.artifacts import StoredFile

CONTENT_TYPE = "application/octet-stream"
"""Whatever it is: a file of a script must not become a page of ours."""


def answer(request: HttpRequest, file: StoredFile) -> HttpResponseBase:
    """The file, or the part of it that is asked for; raises CheckpointRejected where its beginning can't be read."""
    size, etag = file.entry.size, f'"{file.entry.sha256}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if ranges.is_known(request, etag):
        return HttpResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if (address := file.link) is not None:
        return HttpResponseRedirect(address, headers={"Cache-Control": "no-store"})
    try:
        span = ranges.wanted(request, size, etag)
    except ranges.Unsatisfiable:
        refused = {"Content-Range": f"bytes */{size}"}
        return problems.of_status(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, refused)
    headers |= {"Accept-Ranges": "bytes", "Content-Disposition": content_disposition_header(True, file.name) or ""}
    if span is None:
        return streamed(request, file.chunks(), CONTENT_TYPE, headers | {"Content-Length": str(size)})
    headers |= {"Content-Range": span.content_range, "Content-Length": str(span.end - span.start)}
    response = streamed(request, file.chunks(span.start, span.end), CONTENT_TYPE, headers)
    response.status_code = HTTPStatus.PARTIAL_CONTENT
    return response


def streamed(
    request: HttpRequest, chunks: Iterator[bytes], content_type: str, headers: Mapping[str, str]
) -> StreamingHttpResponse:
    """The chunks as an answer; what their first one raises is raised here, in time for another answer."""
    begun = _begun(chunks)
    # All is read from the database by now, and a slow reader must not keep a connection from everybody else.
    close_old_connections()
    # Django collects a plain iterator in memory before it answers under ASGI.
    body = streams.in_thread(begun) if isinstance(request, ASGIRequest) else begun
    return StreamingHttpResponse(body, content_type=content_type, headers=headers)


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks, the first of them made already."""
    first = next(chunks, b"")

    def all_of_them() -> Iterator[bytes]:
        try:
            yield first
            yield from chunks
        finally:
            getattr(chunks, "close", lambda: None)()

    return all_of_them()
