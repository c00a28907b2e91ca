"""Calling the API with somebody's token."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from jobs.commands import tokens

PREFIX = "/api/v1"


class ApiClient:
    """Calls paths below /api/v1 and sends JSON; answers are Django's, with `json()`."""

    def __init__(self, person: User, **defaults: Any) -> None:
        self.person = person
        self.client = Client(headers={"Authorization": f"Bearer {tokens.issue(person)}"}, **defaults)

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(PREFIX + path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self._send("post", path, body, **options)

    def patch(self, path: str, body: Any) -> Any:
        return self._send("patch", path, body)

    def delete(self, path: str) -> Any:
        return self.client.delete(PREFIX + path)

    def send(self, path: str, raw: bytes, content_type: str = "application/json") -> Any:
        """Post exactly these bytes."""
        return self.client.post(PREFIX + path, raw, content_type=content_type)

    def _send(self, method: str, path: str, body: Any, **options: Any) -> Any:
        data = b"" if body is None else body
        return getattr(self.client, method)(PREFIX + path, data, content_type="application/json", **options)


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """The problem document in an answer, which must be one of that status and code."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(response.content)
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"].endswith(code)
    assert document["title"]
    assert document["detail"].endswith((".", ")"))
    return document


def problem_errors(response: Any) -> dict[str, str]:
    """What is wrong by field in an answer that must be a 422."""
    errors: dict[str, str] = problem(response, 422, "invalid")["errors"]
    return errors
