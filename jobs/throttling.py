"""How often somebody may do something: counted per minute in Redis, and not at all while Redis is away."""

import hashlib
import logging
import time

import redis.exceptions
from django.core.cache import cache

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60


def check(scope: str, key: str, per_minute: int) -> float | None:
    """Count one try of `key` (a user, an address) at `scope`; returns None where it is allowed, else seconds to wait.

    Tries are counted by the minute of the clock, the refused ones included. Without Redis everything is allowed: the
    limits guard against floods, and a lost doorbell must not stop anybody's work.
    """
    now = time.time()
    counter = _counter(scope, key, now)
    try:
        cache.add(counter, 0, timeout=2 * WINDOW_SECONDS)
        tries = cache.incr(counter)
    except (redis.exceptions.RedisError, OSError, ValueError) as error:
        logger.warning("Redis did not count a try at %s: %s", scope, error)
        return None
    return None if tries <= per_minute else WINDOW_SECONDS - now % WINDOW_SECONDS


def forget(scope: str, key: str) -> None:
    """Take back what `check` counted in this minute, such as the failed tries before a sign-in that went well."""
    try:
        cache.delete(_counter(scope, key, time.time()))
    except (redis.exceptions.RedisError, OSError) as error:
        logger.warning("Redis did not forget the tries at %s: %s", scope, error)


def _counter(scope: str, key: str, now: float) -> str:
    # Hashed: keys are what people typed, and neither its length nor its content belongs into Redis.
    who = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"throttle:{scope}:{who}:{int(now // WINDOW_SECONDS)}"
