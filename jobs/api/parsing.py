"""Reading bodies strictly: what is not JSON in UTF-8 is malformed, whatever Python's parser would make of it."""

import json
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from ninja.parser import Parser

from jobs.api.errors import Malformed
from jobs.errors import Invalid

MULTIPART = {"source": "Sending files is not supported yet; send JSON with the script's text in training_script."}


class StrictParser(Parser):
    """Ninja's parser, without Python's liberties."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type == "multipart/form-data":
            raise Invalid(MULTIPART)
        try:
            text = request.body.decode()
            parsed = json.loads(text, parse_constant=_refuse_constant)
            if "\\u" in text:
                # Half a surrogate pair is no text that UTF-8, and so PostgreSQL, could hold.
                json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeDecodeError as error:
            raise Malformed("The body is not UTF-8.") from error
        except UnicodeEncodeError as error:
            raise Malformed("The body holds half of a surrogate pair, which is no text.") from error
        except RecursionError as error:
            raise Malformed("The body is nested too deeply.") from error
        except ValueError as error:
            raise Malformed(f"The body is not JSON: {error}.") from error
        return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def read_within_limits(request: HttpRequest) -> None:
    """Read a body that does not say how long it is; Django holds only those that do to its limit."""
    if request.META.get("CONTENT_LENGTH") or hasattr(request, "_body"):
        return
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    body = request.read(limit + 1)
    if len(body) > limit:
        raise RequestDataTooBig("The body is too large.")
    request._body = body
