"""Commands in any order, from two workers, two reapers and two people: every promise holds after every step.

`--hypothesis-profile long` plays some hundred times as much.
"""

import contextlib
import uuid

from django.db import transaction
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobs import dispatch, reaper, transition
from jobs.commands import cancellation, checkpoints, edits, executions, logs, requeueing, workers
from jobs.commands.checkpoints import Snapshot
from jobs.commands.executions import Lease
from jobs.errors import Refused, Stale
from jobs.models import Execution, Installation, Job, Priority, Worker, WorkerMode
from jobs.states import ACTIVE, FINAL, Command, EventKind, JobState, Phase, Reason, edge
from jobs.timeline import Fact
from jobs.transition import Fence
from tests import database, factories, invariants

which = st.integers(0, 1)
SNAPSHOT = Snapshot(manifest_key="m", file_count=1, total_bytes=1, new_bytes=1, step=1, final=False)


class Control(RuleBasedStateMachine):
    """The control plane, and what really runs: `processes` are the processes on the two workers' machines."""

    @initialize(review=st.booleans())
    def begin(self, review):
        database.empty()
        self.people = [factories.user("member"), factories.user("operator")]
        self.boots = [factories.online("w0"), factories.online("w1", requires_review=review)]
        self.reapers = [uuid.uuid4(), uuid.uuid4()]
        self.processes: list[Lease | None] = [None, None]
        self.known: list[Lease] = []
        self.ended: set[tuple[int, str]] = set()

    # --- people ---------------------------------------------------------------------------------------------------

    @rule(
        person=which,
        attempts=st.integers(1, 3),
        priority=st.sampled_from(Priority),
        on=st.sets(st.sampled_from(["lost", "failed"])),
    )
    def submit(self, person, attempts, priority, on):
        factories.submitted(self.people[person], max_attempts=attempts, priority=priority, retry_on=frozenset(on))

    @rule(person=which, number=st.integers(0, 9))
    def cancel(self, person, number):
        if job := self.job(number):
            state = JobState(job.state)
            with self.refusal_if(state in FINAL):
                after = cancellation.cancel(job.pk, self.people[person])
                assert after == (JobState.RUNNING if state is JobState.RUNNING else JobState.CANCELLED)

    @rule(person=which, number=st.integers(0, 9))
    def requeue(self, person, number):
        if job := self.job(number):
            with self.refusal_if(job.state not in FINAL):
                requeueing.requeue(job.pk, self.people[person])

    @rule(number=st.integers(0, 9), priority=st.sampled_from(Priority))
    def edit(self, number, priority):
        if job := self.job(number):
            with contextlib.suppress(Refused):
                edits.edit(job.pk, self.people[0], priority=priority)

    @rule(number=st.integers(0, 9), approve=st.booleans())
    def review(self, number, approve):
        job = self.job(number)
        if job is None or job.state != JobState.PENDING_REVIEW:
            return
        fence = Fence(execution_id=job.current_execution_id or 0)
        each = edge(
            Command.APPROVE if approve else Command.REJECT,
            JobState.PENDING_REVIEW,
            JobState.ASSIGNED if approve else JobState.QUEUED,
        )
        facts = [Fact(kind=each.emits, message="Reviewed.", execution_id=fence.execution_id)]
        if not approve:
            facts.append(Fact(kind=EventKind.REQUEUED, message="Requeued.", execution_id=fence.execution_id))
        with transaction.atomic():
            columns = {} if approve else {"reason": Reason.REJECTED.value}
            transition.take(each, job_id=job.pk, facts=facts, actor="test", fence=fence, execution=columns)

    # --- workers --------------------------------------------------------------------------------------------------

    @rule(worker=which)
    def start(self, worker):
        execution = Execution.objects.filter(worker_name=f"w{worker}", state="ASSIGNED").first()
        if execution is not None and self.processes[worker] is None:
            lease = factories.lease(execution.job)
            executions.start(lease)
            self.processes[worker] = lease
            self.known.append(lease)

    @rule(number=st.integers(0, 9), write=st.sampled_from(["beat", "phase", "log", "checkpoint", "start"]))
    def write(self, number, write):
        """A process, living or long dead, current or not, says something of its execution."""
        if not self.known:
            return
        lease = self.known[number % len(self.known)]
        with self.refusal_if(not self.is_current(lease), Stale):
            if write == "beat":
                executions.beat(lease)
            elif write == "phase":
                executions.change_phase(lease, Phase.TRAINING)
            elif write == "log":
                logs.append(lease, Execution.objects.get(pk=lease.execution_id).log_bytes, b"x")
            elif write == "checkpoint":
                checkpoints.commit(lease, SNAPSHOT)
            else:
                executions.start(lease)

    @rule(number=st.integers(0, 9), end=st.sampled_from(["succeed", "fail", "lost", "stop", "release"]))
    def finish(self, number, end):
        if not self.known:
            return
        lease = self.known[number % len(self.known)]
        before = Execution.objects.get(pk=lease.execution_id).state
        becomes = {
            "succeed": "SUCCEEDED",
            "fail": "FAILED",
            "lost": "FAILED",
            "stop": "CANCELLED",
            "release": "RELEASED",
        }
        with self.refusal_if(before not in {"RUNNING", becomes[end]}, Stale):
            if end == "succeed":
                executions.succeed(lease)
            elif end == "stop":
                executions.stop(lease)
            elif end == "release":
                executions.release(lease)
            else:
                executions.fail(lease, factories.failure(Reason.SCRIPT_ERROR if end == "fail" else Reason.DISK_FULL))

    @rule(worker=which, crashed=st.booleans())
    def process_ends(self, worker, crashed):
        if lease := self.processes[worker]:
            if crashed or self.is_current(lease):
                executions.crashed(lease.execution_id, f"w{worker}", "It is gone.")
            self.processes[worker] = None
            workers.freed(self.boots[worker], lease.execution_id)

    @rule(worker=which)
    def parent_turns(self, worker):
        workers.renew(self.boots[worker], idle=self.processes[worker] is None)

    @rule(worker=which)
    def comes_again(self, worker):
        """A new start of a worker, whose old process, if there is one, is found alive or dead."""
        self.boots[worker] = factories.boot(f"w{worker}")
        lease = self.processes[worker]
        workers.register(self.boots[worker], still_running=lease.execution_id if lease else None)

    @rule(worker=which)
    def shuts_down(self, worker):
        workers.hand_back(self.boots[worker])
        workers.went_offline(self.boots[worker])

    @rule(worker=which, mode=st.sampled_from(WorkerMode))
    def operator_sets_mode(self, worker, mode):
        workers.set_mode(f"w{worker}", mode)

    # --- time, dispatch and the reapers ---------------------------------------------------------------------------

    @rule(number=st.integers(0, 9))
    def lease_runs_out(self, number):
        if ids := list(Execution.objects.filter(heartbeat__isnull=False).values_list("pk", flat=True)):
            database.execute(
                "UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second' WHERE execution_id = %s",
                ids[number % len(ids)],
            )

    @rule()
    def backoff_ends(self):
        database.execute("UPDATE jobs_job SET not_before = now() WHERE not_before IS NOT NULL")

    @rule(number=which)
    def reap(self, number):
        if reaper.lead(self.reapers[number], "h", 1, seconds=60):
            reaper.sweep()
            left = reaper.seconds_to_next_expiry()
            assert left is None or left > 0, "something overdue was left"

    @rule(number=which)
    def reaper_ends(self, number):
        reaper.retire(self.reapers[number])

    @rule(paused=st.booleans())
    def queue_is_paused_or_not(self, paused):
        Installation.objects.update(queue_paused_at=Now() if paused else None)

    @rule()
    def dispatch(self):
        dispatch.run()
        assert not dispatch._anything_left()

    # --- what always holds ----------------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "processes"))
    @invariant()
    def every_promise_holds(self):
        invariants.check()

    @precondition(lambda self: hasattr(self, "processes"))
    @invariant()
    def a_machine_on_which_a_process_lives_is_given_no_other(self):
        for worker, lease in enumerate(self.processes):
            if lease is not None:
                assert Worker.objects.get(name=f"w{worker}").occupied_by_id == lease.execution_id

    @precondition(lambda self: hasattr(self, "processes"))
    @invariant()
    def what_has_ended_stays_as_it_ended(self):
        ended = set(Execution.objects.exclude(state__in=[state.value for state in ACTIVE]).values_list("pk", "state"))
        assert self.ended <= ended
        self.ended = ended

    # --- helpers --------------------------------------------------------------------------------------------------

    @staticmethod
    def job(number: int) -> Job | None:
        jobs = list(Job.objects.order_by("pk"))
        return jobs[number % len(jobs)] if jobs else None

    @staticmethod
    def is_current(lease: Lease) -> bool:
        return Execution.objects.filter(pk=lease.execution_id, nonce=lease.nonce, state="RUNNING").exists()

    @staticmethod
    @contextlib.contextmanager
    def refusal_if(condition, kind=Refused):
        """The block must be refused exactly if `condition` holds."""
        try:
            yield
        except kind:
            assert condition, "refused without a reason"
        else:
            assert not condition, "not refused"


def test_every_promise_holds_whatever_is_done_in_whatever_order(real_commits):
    profile = settings(
        settings(),
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Control, settings=profile)
