"""The web process: HTTP through Django."""

import gc
import os

import django
from channels.routing import ProtocolTypeRouter
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.web")
django.setup(set_prefix=False)

from config.uploads import StreamingHandler  # noqa: E402
from jobs.api.incoming import is_upload  # noqa: E402


def settle() -> None:
    """Load every view now rather than in the first request, and keep all that is loaded out of garbage collection.

    Going through it again and again is what makes the slowest of a thousand sockets wait seven times as long.
    """
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


application = ProtocolTypeRouter({"http": StreamingHandler(is_upload)})
settle()
