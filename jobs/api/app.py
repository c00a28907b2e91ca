"""The REST API under /api/v1, put together."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from jobs.api import handlers, incoming, parsing, problems
from jobs.api.auth import Session, Token
from jobs.api.routes import bulk, checkpoints, datasets, jobs, queue, runs, workers

_DESCRIPTION = """\
Submit training scripts and follow what becomes of them.

Every list is `{"items": […], "next": …}`: give `next` as `cursor` to read on, until it is null. Errors are
[RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem documents with a `code` for programs, a `detail` for people
and, where fields are wrong, `errors` by field."""


class Api(NinjaAPI):
    """Ninja's API, with our problems in its schema and the functions' names as operation ids."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        schema["components"].setdefault("schemas", {})["Problem"] = problems.Problem.model_json_schema()
        problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
        answer = {"description": "What went wrong", "content": {problems.CONTENT_TYPE: problem}}
        for path in schema["paths"].values():
            for operation in path.values():
                operation["responses"]["default"] = answer
        return schema


def _within_limits(run: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    @wraps(run)
    def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if incoming.is_upload(request.method or "", request.path):
                incoming.leave_unread(request)
            else:
                parsing.read_within_limits(request)
        except Exception as error:
            return api.on_exception(request, error)
        return run(request, *args, **kwargs)

    return limited


api = Api(
    title="Rerail",
    version="1",
    description=_DESCRIPTION,
    urls_namespace="api",
    auth=[Token(), Session()],
    parser=parsing.StrictParser(),
)
handlers.register(api)
api.add_decorator(_within_limits, mode="view")
for _part in (jobs, bulk, runs, checkpoints, datasets, workers, queue):
    api.add_router("", _part.router)
