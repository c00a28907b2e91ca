"""The web process: HTTP through Django."""

import os

import django
from channels.routing import ProtocolTypeRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.web")
django.setup(set_prefix=False)

from config.uploads import StreamingHandler  # noqa: E402
from jobs.api.incoming import is_upload  # noqa: E402

application = ProtocolTypeRouter({"http": StreamingHandler(is_upload)})
