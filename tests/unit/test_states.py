"""The table of edges against section 3 of the design, which is written out here once more by hand."""

from itertools import product

import pytest

from jobs.states import (
    ACTIVE,
    EDGES,
    FINAL,
    HELD,
    REASON_CLASS,
    UNSTARTED,
    WAITING,
    Actor,
    Command,
    EventKind,
    ExecutionState,
    JobState,
    Reason,
    edge,
    edges,
)

# command | from | to | its execution becomes | who
DESIGN = """
submit         |                                       | QUEUED           |                | user
submit         |                                       | AWAITING_DATASET |                | user
attach_dataset | AWAITING_DATASET                      | QUEUED           |                | user
expire_dataset | AWAITING_DATASET                      | FAILED           |                | reaper
give_up        | ASSIGNED                              | FAILED           | RELEASED       | reaper worker
expire_queue   | QUEUED                                | FAILED           |                | reaper
assign         | QUEUED                                | ASSIGNED         | ASSIGNED       | dispatcher
assign         | QUEUED                                | PENDING_REVIEW   | PENDING_REVIEW | dispatcher
approve        | PENDING_REVIEW                        | ASSIGNED         | ASSIGNED       | operator
reject         | PENDING_REVIEW                        | QUEUED           | REJECTED       | operator
expire_review  | PENDING_REVIEW                        | QUEUED           | REJECTED       | reaper
start          | ASSIGNED                              | RUNNING          | RUNNING        | worker
succeed        | RUNNING                               | SUCCEEDED        | SUCCEEDED      | worker
fail           | RUNNING                               | FAILED           | FAILED         | worker reaper
fail           | RUNNING                               | QUEUED           | FAILED         | worker reaper
cancel         | AWAITING_DATASET QUEUED               | CANCELLED        |                | user operator
cancel         | ASSIGNED PENDING_REVIEW               | CANCELLED        | CANCELLED      | user operator
cancel         | RUNNING                               | RUNNING          |                | user operator
stop           | RUNNING                               | CANCELLED        | CANCELLED      | worker reaper
release        | ASSIGNED PENDING_REVIEW RUNNING       | QUEUED           | RELEASED       | worker reaper
lose           | ASSIGNED PENDING_REVIEW RUNNING       | QUEUED           | LOST           | worker reaper
lose           | ASSIGNED PENDING_REVIEW RUNNING       | FAILED           | LOST           | worker reaper
requeue        | SUCCEEDED FAILED CANCELLED            | QUEUED           |                | user operator
requeue        | SUCCEEDED FAILED CANCELLED            | AWAITING_DATASET |                | user operator
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in DESIGN.strip().splitlines()]

NOTHING: list[None] = [None]

FENCED = {Command.START, Command.SUCCEED, Command.FAIL, Command.STOP, Command.RELEASE, Command.LOSE}


def words(text: str) -> list[str]:
    return text.split()


def expected() -> set[tuple[str, str | None, str, str | None]]:
    return {
        (command, source, target, execution or None)
        for command, sources, target, execution, _ in ROWS
        for source in (sources.split() if sources else NOTHING)
    }


def actual() -> set[tuple[str, str | None, str, str | None]]:
    return {
        (each.command, source, each.target, each.execution_target)
        for each in EDGES
        for source in (each.sources or NOTHING)
    }


def test_the_table_holds_exactly_the_edges_of_the_design():
    assert actual() == expected()


def test_no_edge_stands_in_it_twice():
    listed = [(each.command, source, each.target) for each in EDGES for source in (each.sources or NOTHING)]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} to {row[2]}")
def test_each_edge_is_taken_by_those_whom_the_design_names(row):
    command, sources, target, _, who = row
    source = JobState(sources.split()[0]) if sources else None
    assert edge(Command(command), source, JobState(target)).by == {Actor(name) for name in who.split()}


def test_the_edges_that_end_or_begin_a_process_are_fenced_and_no_others():
    assert {each.command for each in EDGES if each.fenced} == FENCED
    assert all(each.fenced == (each.command in FENCED) for each in EDGES)


@pytest.mark.parametrize(("command", "source"), list(product(Command, [None, *JobState])))
def test_what_the_design_does_not_name_is_no_edge(command, source):
    targets = {target for c, s, target, _ in expected() if (c, s) == (command, source)}
    assert {each.target for each in edges(command, source)} == targets
    instead = {JobState.CANCELLED} if JobState.QUEUED in targets else set()
    for target in JobState:
        if target in targets | instead:
            assert edge(command, source, target).target is target
        else:
            with pytest.raises(LookupError):
                edge(command, source, target)


def test_an_edge_to_the_queue_may_end_in_cancelled_instead_and_ends_its_execution_all_the_same():
    for each in EDGES:
        if each.target is not JobState.QUEUED:
            continue
        for source in each.sources:
            instead = edge(each.command, source, JobState.CANCELLED)
            assert instead.target is JobState.CANCELLED
            assert (instead.sources, instead.execution_target, instead.by, instead.fenced, instead.emits) == (
                each.sources,
                each.execution_target,
                each.by,
                each.fenced,
                each.emits,
            )


def test_stop_keeps_its_own_way_to_cancelled():
    assert edge(Command.STOP, JobState.RUNNING, JobState.CANCELLED) in EDGES


def test_the_kinds_of_states_are_those_of_the_design():
    assert {JobState.AWAITING_DATASET, JobState.QUEUED, JobState.ASSIGNED, JobState.PENDING_REVIEW} == WAITING
    assert {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED} == FINAL
    assert WAITING | {JobState.RUNNING} | FINAL == set(JobState)
    assert [state.value for state in sorted(HELD)] == [state.value for state in sorted(ACTIVE)]
    assert {"ASSIGNED", "PENDING_REVIEW"} == UNSTARTED
    assert set(ExecutionState) - ACTIVE == {"SUCCEEDED", "FAILED", "LOST", "CANCELLED", "REJECTED", "RELEASED"}


@pytest.mark.parametrize("state", sorted(set(JobState) - FINAL))
def test_a_job_can_be_cancelled_from_every_state_before_its_end(state):
    assert edges(Command.CANCEL, state)


@pytest.mark.parametrize("state", sorted(set(JobState) - FINAL))
def test_every_state_has_a_way_out_that_needs_no_person_unless_it_waits_for_one(state):
    leads_away = {each for each in EDGES if state in each.sources and each.target is not state}
    assert leads_away
    deadlines = {each for each in leads_away if Actor.REAPER in each.by}
    assert deadlines, f"nothing ends a job that stays {state}"


@pytest.mark.parametrize("state", sorted(FINAL))
def test_only_a_requeue_leads_out_of_the_end(state):
    assert {each.command for each in EDGES if state in each.sources} == {Command.REQUEUE}


def test_every_state_of_jobs_and_of_executions_is_reached():
    assert {each.target for each in EDGES} == set(JobState)
    assert {each.execution_target for each in EDGES} - {None} == set(ExecutionState)


def test_a_job_that_leaves_the_held_states_ends_its_execution_and_one_that_stays_keeps_it():
    for each in EDGES:
        for source in each.sources & HELD:
            if each.target in HELD:
                assert each.execution_target in ACTIVE | {None}
            else:
                assert each.execution_target in set(ExecutionState) - ACTIVE, f"{each.name} from {source}"


def test_whatever_is_active_has_the_same_name_on_both_sides():
    for each in EDGES:
        if each.target in HELD and each.execution_target is not None:
            assert each.execution_target.value == each.target.value


def test_every_kind_of_event_of_the_contract_is_there():
    contract = """submitted dataset_uploaded dataset_expired queued queue_expired assigned review_requested approved
    rejected review_expired started phase_changed checkpoint_saved checkpoint_failed checkpoint_restored
    checkpoint_rejected priority_changed cancel_requested cancelled released lease_expired worker_crashed
    execution_failed requeued retry_scheduled attempts_exhausted time_limit_reached stalled succeeded failed
    result_refused resurfaced"""
    assert {kind.value for kind in EventKind} == set(contract.split())


def test_every_reason_of_the_contract_is_there_in_its_class():
    lost = words("worker_crashed lease_expired disk_full publish_failed")
    failed = words("""script_error killed_by_signal out_of_memory time_limit stalled setup_failed dataset_missing
    checkpoint_corrupt""")
    neither = words("""never_started drained rejected review_timeout dataset_timeout queue_timeout cancelled
    attempts_exhausted""")
    assert {reason.value for reason in Reason} == {*lost, *failed, *neither}
    assert {reason.value: kind.value for reason, kind in REASON_CLASS.items()} == {
        **dict.fromkeys(lost, "lost"),
        **dict.fromkeys(failed, "failed"),
    }
