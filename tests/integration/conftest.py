"""People by role, and clients that call the API as they do."""

import pytest
from django.contrib.auth.models import User

from tests import factories
from tests.integration.client import ApiClient


@pytest.fixture
def member(db) -> User:
    return factories.user("member", "ada")


@pytest.fixture
def api(member) -> ApiClient:
    return ApiClient(member)


@pytest.fixture
def other_api(db) -> ApiClient:
    return ApiClient(factories.user("member", "bob"))


@pytest.fixture
def operator_api(db) -> ApiClient:
    return ApiClient(factories.user("operator", "olga"))


@pytest.fixture
def viewer_api(db) -> ApiClient:
    return ApiClient(factories.user("viewer", "vera"))
