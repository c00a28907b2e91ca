"""Files on their way in, read piece by piece: Django's own way keeps a whole request first."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from jobs.api.errors import Malformed
from jobs.errors import Invalid
from jobs.storage.objects import CHUNK

MULTIPART = "multipart/form-data"
MAX_FIELD_BYTES = 4 * 1024 * 1024
"""Of all fields that are no files together."""
MAX_FIELDS = 100

_TAKING = re.compile(r"/api/v1/(?:jobs/[0-9]+/upload|datasets)")


def is_upload(method: str, path: str) -> bool:
    """Whether such a request brings a file: nobody may read its body before its view does."""
    return method == "POST" and _TAKING.fullmatch(path) is not None


def leave_unread(request: HttpRequest) -> None:
    """Keep Django's forms, where a session's CSRF token may be looked for, from reading the body."""
    request._post = QueryDict()  # type: ignore[attr-defined]  # what its properties look at first
    request._files = MultiValueDict()  # type: ignore[attr-defined]


class Upload:
    """The one file in a request: in its field `file`, or the whole body with its name in the query."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.filename = _clean(request.GET.get("filename", ""))
        self.fields: dict[str, str] = {}
        length = request.META.get("CONTENT_LENGTH") or ""
        self.declared_size = int(length) if length.isascii() and length.isdecimal() else None

    def chunks(self) -> Iterator[bytes]:
        """The file's bytes; raises Malformed where the body breaks off, Invalid where it brings no file or several."""
        if self._request.content_type != MULTIPART:
            yield from self._body()
            return
        form = _Form(self._request.META.get("CONTENT_TYPE", ""), self._body())
        yield from form.chunks()
        self.filename, self.fields = form.filename or self.filename, form.fields

    def _body(self) -> Iterator[bytes]:
        size = 0
        while chunk := self._request.read(CHUNK):
            size += len(chunk)
            yield chunk
        if self.declared_size is not None and size < self.declared_size:
            raise Malformed("The body broke off.")


class _Form:
    """Takes a multipart body apart: small fields are kept, the file passes through."""

    def __init__(self, content_type: str, body: Iterator[bytes]) -> None:
        self.filename, self.fields = "", {}  # type: tuple[str, dict[str, str]]
        self._body = body
        self._content: list[bytes] = []
        self._headers: dict[str, bytes] = {}
        self._header = self._value = b""
        self._field: str | None = None
        self._kept = bytearray()
        self._kept_bytes = self._files = 0
        self._whole = False
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise Malformed("The multipart body names no boundary.")
        try:
            self._parser = MultipartParser(boundary, {
                "on_part_begin": self._begin, "on_header_field": self._header_field,
                "on_header_value": self._header_value, "on_header_end": self._header_end,
                "on_headers_finished": self._headers_end, "on_part_data": self._data, "on_part_end": self._end,
                "on_end": self._finish,
            })  # fmt: skip
        except FormParserError as error:
            raise Malformed("The multipart body's boundary can't be used.") from error

    def chunks(self) -> Iterator[bytes]:
        for piece in self._body:
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise Malformed("The multipart body can't be taken apart.") from error
            yield from self._content
            self._content.clear()
        if not self._whole:
            raise Malformed("The multipart body broke off.")
        if self._files != 1:
            raise Invalid({"file": "It is required." if not self._files else "Send one file at a time."})

    def _begin(self) -> None:
        self._headers = {}
        self._kept = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        options = parse_options_header(self._headers.get("content-disposition", b""))[1]
        name = options.get(b"name", b"").decode("utf-8", "replace")
        self._field = None if name == "file" else name
        if self._field is None:
            self._files += 1
            self.filename = _clean(options.get(b"filename", b"").decode("utf-8", "replace"))
        elif len(self.fields) >= MAX_FIELDS:
            raise Malformed(f"The multipart body has more than {MAX_FIELDS} fields.")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._content.append(data[start:end])
            return
        self._kept_bytes += end - start
        if self._kept_bytes > MAX_FIELD_BYTES:
            raise Malformed("The fields of the multipart body are too large.")
        self._kept += data[start:end]

    def _end(self) -> None:
        if self._field is not None:
            self.fields[self._field] = self._kept.decode("utf-8", "replace")

    def _finish(self) -> None:
        self._whole = True


def _clean(filename: str) -> str:
    """A name for people and for the file on the worker: the last part of a path, one printable line."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    name = "".join(character for character in name if character.isprintable())
    while len(name.encode()) > 200:
        name = name[1:]
    return name if name not in {"", ".", ".."} else "dataset"
