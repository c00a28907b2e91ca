"""The script itself: its environment is made, it is run, awaited, and stopped when somebody asks for that."""

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from jobs.commands.orders import Order
from workers import environment, isolation
from workers.process import Confinement, Exit, Script, ScriptSpec
from workers.stopping import Stop
from workers.workspace import SCRIPT, SDK, Workspace, cache

TICK = 1.0


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A script ready to be started."""

    plan: environment.Plan
    confinement: Confinement
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended, and whether it had been asked to."""

    exit: Exit
    stopped: bool


def prepare(order: Order, space: Workspace, *, resumed: bool, dataset: Path | None = None) -> Prepared:
    """Lay out what the script is started with, and give its folder to its uid. Raises RefusedVariable, OSError."""
    owner_cache = environment.owner_cache(cache(), order.owner_id)
    request = environment.Request(
        folder=space.folder,
        script=SCRIPT,
        args=order.args,
        env=order.env,
        requirements=order.requirements or None,
        variables=environment.rerail_variables(
            job_id=order.lease.job_id,
            attempt=order.attempt,
            resumed=resumed,
            dataset_folder=dataset,
            metrics=space.metrics,
            checkpoint=space.requests.with_suffix(""),
        ),
        sdk=SDK,
        cache=owner_cache,
    )
    plan = environment.plan(request)
    confinement = isolation.confine(
        isolation.detect(space.root.parent).level,
        order.owner_id,
        hidden=[Path(settings.RERAIL.data_dir), Path(settings.RERAIL.socket_dir)],
        writable=[space.folder, *plan.writable],
        readonly=[*plan.readonly, *([dataset] if dataset else [])],
    )
    if plan.writable:
        isolation.give_cache(owner_cache, confinement)
    isolation.give_folder(space.folder, confinement)
    return Prepared(plan=plan, confinement=confinement, folder=space.folder)


def run(
    command: environment.Command,
    prepared: Prepared,
    output: Path,
    stop: Stop,
    *,
    started: Callable[[], None] = lambda: None,
    each_tick: Callable[[], None] = lambda: None,
) -> Ended:
    """Run one command of the plan to its end, its output going to a file of ours. Raises SpawnError.

    `started` is called once it runs, so that the script need not wait for what is to be said of it.
    When `stop` asks for it, the script gets SIGTERM and its grace, then SIGKILL; when the execution belongs to
    another process by now, SIGKILL at once. Returns when no descendant is left.
    """
    sink = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        spec = ScriptSpec(
            argv=command.argv,
            env=command.env,
            folder=prepared.folder,
            stdout=sink,
            stderr=sink,
            confinement=prepared.confinement,
        )
        with Script.spawn(spec) as script:
            started()
            return _await(script, stop, each_tick)
    finally:
        os.close(sink)


def _await(script: Script, stop: Stop, each_tick: Callable[[], None]) -> Ended:
    poll = select.poll()
    poll.register(script, select.POLLIN)
    poll.register(stop, select.POLLIN)
    while stop.reason is None:
        poll.poll(TICK * 1000)
        each_tick()
        if (end := script.wait(0)) is not None:
            return Ended(exit=end, stopped=False)
    return Ended(exit=_stop(script, stop, each_tick), stopped=True)


def _stop(script: Script, stop: Stop, each_tick: Callable[[], None]) -> Exit:
    if not stop.fenced:
        script.terminate()
    deadline = time.monotonic() + settings.RERAIL.timing.stop_grace
    while not stop.fenced and (left := deadline - time.monotonic()) > 0:
        if (end := script.wait(min(left, TICK))) is not None:
            return end
        each_tick()
    end = script.kill()
    assert end is not None, "kill without a timeout returns when the script has ended"
    return end
