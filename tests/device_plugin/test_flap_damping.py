"""A device that fails again and again has to be sound for a while."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from device_plugin.host import health

# Whole seconds: with fractions, (now + CALM_S) - now may round to less than CALM_S.
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 400).map(float)), max_size=40)


def after(*seen: tuple[float, bool], since: health.History | None = None) -> health.History:
    """The history after looks at these moments."""
    history = since or health.History()
    for now, faulty in seen:
        history = health.next_history(history, faulty=faulty, now=now)
    return history


def flaps(count: int, apart_s: float = 20.0) -> Iterable[tuple[float, bool]]:
    """Faults that begin so far apart, with a sound moment after each."""
    for index in range(count):
        yield index * apart_s, True
        yield index * apart_s + apart_s / 2, False


def test_the_third_fault_within_the_window_damps_at_once() -> None:
    assert not after(*flaps(2)).damped
    assert after(*flaps(2), (40, True)).damped


def test_a_fault_that_lasts_is_one() -> None:
    history = after(*((float(now), True) for now in range(0, 3000, 30)))

    assert not history.damped
    assert not after((3000, False), since=history).damped


def test_faults_that_are_far_apart_do_not_add_up() -> None:
    assert not after(*flaps(10, apart_s=health.WINDOW_S / 2)).damped
    assert after(*flaps(3, apart_s=health.WINDOW_S / 2 - 1)).damped


def test_a_damped_device_is_free_once_it_was_sound_for_long_enough() -> None:
    history = after(*flaps(3))

    assert history.sound_since == 50
    assert after((50 + health.CALM_S - 1, False), since=history).damped
    assert not after((50 + health.CALM_S, False), since=history).damped


def test_a_fault_during_the_calm_begins_it_anew() -> None:
    history = after(*flaps(3), (200, True), (210, False))

    assert after((50 + health.CALM_S, False), since=history).damped
    assert not after((210 + health.CALM_S, False), since=history).damped


def test_a_device_that_became_free_starts_with_a_clean_slate() -> None:
    free = after(*flaps(3), (400, False))

    assert free == health.History(sound_since=50)
    assert not after((401, True), (402, False), (403, True), since=free).damped


@given(STEPS)
def test_no_history_grows_and_no_soundness_lasts_through_a_fault(steps: list[tuple[bool, float]]) -> None:
    history, now = health.History(), 0.0
    for faulty, passed in steps:
        now += passed
        history = health.next_history(history, faulty=faulty, now=now)

        assert len(history.began) <= health.FAULTS
        assert history.faulty == faulty
        assert (history.sound_since is None) == faulty


@given(STEPS)
def test_whatever_happened_calm_ends_the_damping(steps: list[tuple[bool, float]]) -> None:
    history, now = health.History(), 0.0
    for faulty, passed in steps:
        now += passed
        history = health.next_history(history, faulty=faulty, now=now)

    assert not after((now, False), (now + health.CALM_S, False), since=history).damped
