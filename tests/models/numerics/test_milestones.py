"""The schedule of refits against its own definition, and a memo that changes no answer."""

import pytest

from fieldcraft.models.numerics.milestones import Memo, milestone


def test_milestones_are_all_sizes_to_50_and_then_grow_by_a_tenth():
    assert [milestone(n) for n in (0, 1, 7, 50, 51, 54, 55, 60, 61, 70)] == [0, 1, 7, 50, 50, 50, 55, 55, 61, 68]


@pytest.mark.parametrize("n", [3, 50, 77, 500, 2000, 20_000])
def test_a_milestone_is_its_own_and_within_a_tenth(n):
    found = milestone(n)
    assert milestone(found) == found <= n < 1.1 * found + 1


def test_a_memo_asks_once_and_forgets_the_oldest():
    asked = []

    def answer(key):
        asked.append(key)
        return key * 10

    memo = Memo(most=2)
    assert [memo.get(key, lambda key=key: answer(key)) for key in (1, 2, 1, 3, 1, 2)] == [10, 20, 10, 30, 10, 20]
    assert asked == [1, 2, 3, 2]


def test_an_answer_may_ask_its_own_memo():
    memo = Memo(most=1)

    def factorial(n):
        return memo.get(n, lambda: n * factorial(n - 1) if n else 1)

    assert factorial(5) == 120
