"""Django's settings; everything that varies comes from `config.environment`."""

from typing import Any

import dj_database_url
import django_stubs_ext

from config import environment, secret_key, storages

django_stubs_ext.monkeypatch()

RERAIL = environment.read()
BASE_DIR = environment.BASE_DIR

SECRET_KEY = RERAIL.secret_key or secret_key.kept_in(RERAIL.data_dir)
DEBUG = False
ALLOWED_HOSTS = [*RERAIL.allowed_hosts, "localhost", "127.0.0.1", "[::1]"]
if RERAIL.bind not in {"0.0.0.0", "::"}:  # noqa: S104
    ALLOWED_HOSTS.append(RERAIL.bind)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "channels",
    "django_htmx",
    "django_rq",
    "ninja",
    "storages",
    "jobs",
]

MIDDLEWARE = [
    "jobs.api.middleware.problems_under_the_api",
    "django.middleware.security.SecurityMiddleware",
    "jobs.views.policy.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "jobs.views.context.person",
            ],
        },
    },
]

# --- the three services -------------------------------------------------------------------------------------------

POSTGRES_SOCKETS = RERAIL.socket_dir / "postgres"
REDIS_SOCKET = RERAIL.socket_dir / "valkey" / "valkey.sock"
DATABASE_URL = RERAIL.database_url or f"postgresql://rerail@/rerail?host={POSTGRES_SOCKETS}"
REDIS_URL = RERAIL.redis_url or f"unix://{REDIS_SOCKET}"

DATABASES: dict[str, Any] = {
    "default": {
        **dj_database_url.parse(DATABASE_URL),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
    }
}
DATABASES["default"]["OPTIONS"] = {**DATABASES["default"].get("OPTIONS", {}), "application_name": "rerail"}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Redis is a doorbell: where it doesn't answer at once, whoever rings goes on without.
REDIS_TIMEOUT_SECONDS = 2
RQ_QUEUES = {
    "default": {
        "URL": REDIS_URL,
        "DEFAULT_TIMEOUT": -1,
        "DEFAULT_RESULT_TTL": 60,
    }
}
RQ_SHOW_ADMIN_LINK = False
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "rerail"},
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "rerail",
        "OPTIONS": {"socket_connect_timeout": REDIS_TIMEOUT_SECONDS, "socket_timeout": REDIS_TIMEOUT_SECONDS},
    }
}
STORAGES = {
    "default": storages.backend(RERAIL.storage_url, RERAIL.data_dir / "storage"),
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}

# --- people -------------------------------------------------------------------------------------------------------

LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "job-list"
LOGOUT_REDIRECT_URL = "sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
SIGN_IN_ATTEMPTS_PER_MINUTE = 10
"""Failed sign-ins per address and account."""
SUBMISSIONS_PER_MINUTE = 600
"""Jobs per user."""

CSRF_FAILURE_VIEW = "jobs.views.errors.csrf_failure"
CSRF_TRUSTED_ORIGINS = list(RERAIL.trusted_origins)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if RERAIL.behind_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    # Health checks come from inside, without TLS.
    SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
    SECURE_HSTS_SECONDS = 31_536_000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

# --- limits of what people send -----------------------------------------------------------------------------------

MAX_SCRIPT_BYTES = 2 * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024

# --- texts, times, files ------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served straight from where the packages keep them: an installation has no build step.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"django.server": {"propagate": False}, "daphne": {"level": "WARNING"}},
}
