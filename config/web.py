"""Settings of the web process: as `config.settings`, with pooled database connections for its request threads."""

from config.settings import *  # noqa: F403
from config.settings import DATABASES

DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 2, "max_size": 16, "timeout": 10}
