"""People by role, and clients that call the API as they do."""

import pytest
from django.contrib.auth.models import User

from tests.factories import person
from tests.integration.client import ApiClient


@pytest.fixture
def member(db: None) -> User:
    return person("ada", "member")


@pytest.fixture
def other(db: None) -> User:
    return person("bob", "member")


@pytest.fixture
def operator(db: None) -> User:
    return person("olga", "operator")


@pytest.fixture
def viewer(db: None) -> User:
    return person("vera", "viewer")


@pytest.fixture
def api(member: User) -> ApiClient:
    return ApiClient(member)


@pytest.fixture
def operator_api(operator: User) -> ApiClient:
    return ApiClient(operator)


@pytest.fixture
def viewer_api(viewer: User) -> ApiClient:
    return ApiClient(viewer)


@pytest.fixture
def other_api(other: User) -> ApiClient:
    return ApiClient(other)
