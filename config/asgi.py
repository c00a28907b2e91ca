"""The web process: HTTP through Django."""

import gc
import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.web")


def settle() -> None:
    """Load every view now rather than in the first request, and keep all that is loaded out of garbage collection.

    Going through it again and again is what makes the slowest of a thousand sockets wait seven times as long.
    """
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


application = ProtocolTypeRouter({"http": get_asgi_application()})
settle()
