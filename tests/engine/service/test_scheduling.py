"""A quick look goes before a long merge, which goes on all the same."""

from ace_gui.engine.service.runner import HEAD_START, JobScheduler

MERGE = 1


def run(seconds: float, look: float, merge: float) -> tuple[float, float]:
    """Seconds of the merge and of the looks while one look follows upon the other."""
    scheduler, spent = JobScheduler(), {True: 0.0, False: 0.0}
    number = 2
    while sum(spent.values()) < seconds:
        active = {MERGE, number}
        turn = scheduler.next(active)
        took = merge if turn == MERGE else look
        scheduler.took(turn, took, active)
        spent[turn == MERGE] += took
        number += turn != MERGE
    return spent[True], spent[False]


def test_a_first_look_goes_before_the_merge() -> None:
    scheduler = JobScheduler()
    scheduler.took(MERGE, 60.0, {MERGE})
    assert scheduler.next({MERGE, 7}) == 7
    scheduler.took(7, HEAD_START, {MERGE, 7})
    assert scheduler.next({MERGE, 7}) == 7


def test_endless_looks_leave_the_merge_half_of_the_time_or_more() -> None:
    for look, merge in ((0.2, 0.05), (1.0, 3.0), (5.0, 0.1)):
        merging, looking = run(200.0, look, merge)
        assert merging >= looking - HEAD_START - 2 * look
        assert looking >= 200.0 * HEAD_START / (2 * (HEAD_START + look + merge))


def test_a_job_alone_always_has_its_turn() -> None:
    scheduler = JobScheduler()
    for number in (3, 4, 5):
        assert scheduler.next({number}) == number
        scheduler.took(number, 10.0, {number})
    assert scheduler.next({1, 2}) == 2
