"""The retry policy: bounded, at no charge for what never ran, and spread out in time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.retry import Budget, Verdict, backoff, judge
from jobs.states import REASON_CLASS, Reason

BASE, LIMIT = 5.0, 300.0

reasons = st.sampled_from(sorted(Reason))
classes = st.sets(st.sampled_from(["lost", "failed"])).map(frozenset)
attempts = st.integers(1, 1000)


def verdict(reason: Reason, *, used: int = 0, most: int = 3, on=frozenset({"lost"}), started: bool = True) -> Verdict:
    budget = Budget(max_attempts=most, used=used, retry_on=on)
    return judge(budget, reason, started=started, base=BASE, limit=LIMIT)


@settings(max_examples=200)
@given(most=attempts, on=classes, endings=st.lists(st.tuples(reasons, st.booleans()), max_size=200))
def test_however_attempts_end_no_job_is_charged_more_than_its_budget(most, on, endings):
    used = 0
    for reason, started in endings:
        result = verdict(reason, used=used, most=most, on=on, started=started)
        used += result.charged
        assert used <= most
        if not result.retry:
            return
        assert used < most, "a retry without an attempt left"


@settings(max_examples=200)
@given(reason=reasons, used=attempts, most=attempts, on=classes)
def test_an_attempt_that_never_started_is_tried_again_at_once_and_at_no_charge(reason, used, most, on):
    assert verdict(reason, used=used, most=most, on=on, started=False) == Verdict(retry=True, charged=False, delay=0.0)


@settings(max_examples=200)
@given(reason=reasons, used=attempts, most=attempts, on=classes)
def test_a_started_attempt_is_always_charged(reason, used, most, on):
    assert verdict(reason, used=used, most=most, on=on).charged


@settings(max_examples=200)
@given(reason=reasons, used=st.integers(0, 10), most=st.integers(1, 10), on=classes)
def test_only_a_reason_whose_class_the_job_names_is_retried_or_exhausts_its_attempts(reason, used, most, on):
    result = verdict(reason, used=used, most=most, on=on)
    named = REASON_CLASS.get(reason) in on
    assert (result.retry or result.exhausted) == named
    assert not (result.retry and result.exhausted)
    if named:
        assert result.exhausted == (used + 1 >= most)


@settings(max_examples=200)
@given(used=st.integers(2, 10_000), base=st.floats(0.01, 100), limit=st.floats(0.01, 10_000))
def test_backoff_doubles_up_to_its_limit_with_a_quarter_of_jitter(used, base, limit):
    full = min(base * 2.0 ** min(used - 2, 60), limit)
    assert 0.75 * full <= backoff(used, base, limit) <= full


def test_the_first_retry_is_immediate_the_second_after_five_seconds_then_ten():
    assert backoff(1, BASE, LIMIT) == 0
    assert 3.75 <= backoff(2, BASE, LIMIT) <= 5
    assert 7.5 <= backoff(3, BASE, LIMIT) <= 10


def test_it_grows_no_further_than_five_minutes_however_often_a_job_was_lost():
    assert 225 <= backoff(9, BASE, LIMIT) <= 300
    assert 225 <= backoff(10**6, BASE, LIMIT) <= 300


def test_jobs_lost_together_do_not_return_together():
    assert len({backoff(3, BASE, LIMIT) for _ in range(100)}) > 50


def test_a_script_error_ends_a_job_unless_it_asks_for_retries_of_failures():
    assert verdict(Reason.SCRIPT_ERROR) == Verdict(retry=False, charged=True)
    assert verdict(Reason.SCRIPT_ERROR, on=frozenset({"failed"})).retry


def test_what_only_the_disk_or_the_storage_did_counts_as_lost():
    assert verdict(Reason.DISK_FULL).retry
    assert verdict(Reason.PUBLISH_FAILED).retry
    assert not verdict(Reason.PUBLISH_FAILED, on=frozenset({"failed"})).retry
