"""The application's registration with Django."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Rerail"

    def ready(self) -> None:
        from jobs import checks  # noqa: F401  registers the system checks
