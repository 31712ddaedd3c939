import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.engine.pool import Pool, PoolError

TOTAL = 12


class PoolWalk(RuleBasedStateMachine):
    """Any order of taking and giving conserves every number and never hands out scratch or a held one."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(TOTAL)
        self.held: list[int] = []

    @rule(count=st.integers(0, TOTAL + 2))
    def take(self, count: int) -> None:
        if count > TOTAL - len(self.held):
            with pytest.raises(PoolError):
                self.pool.take(count)
            return
        taken = self.pool.take(count).tolist()
        assert len(taken) == count
        assert not set(taken) & set(self.held)
        assert set(taken) <= set(range(1, TOTAL + 1))
        self.held += taken

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give(self, data: st.DataObject) -> None:
        back = data.draw(st.lists(st.sampled_from(self.held), unique=True))
        self.pool.give(np.array(back, dtype=np.int64))
        self.held = [number for number in self.held if number not in back]

    @rule(number=st.integers(-1, TOTAL + 1))
    def give_what_is_not_held(self, number: int) -> None:
        if number not in self.held:
            with pytest.raises(PoolError):
                self.pool.give(np.array([number]))

    @invariant()
    def adds_up(self) -> None:
        assert (self.pool.free, self.pool.held) == (TOTAL - len(self.held), len(self.held))
        self.pool.audit(np.array(self.held, dtype=np.int64))


PoolWalk.TestCase.settings = settings(max_examples=60, deadline=None)
TestPoolWalk = PoolWalk.TestCase


def test_audit_finds_a_leak_and_a_double_hold() -> None:
    pool = Pool(4)
    held = pool.take(2)
    with pytest.raises(PoolError):
        pool.audit(held[:1])
    with pytest.raises(PoolError):
        pool.audit(np.concatenate([held, held[:1]]))
    pool.audit(held)


def test_giving_the_same_number_twice_in_one_call_is_refused() -> None:
    pool = Pool(4)
    number = pool.take(1)
    with pytest.raises(PoolError):
        pool.give(np.concatenate([number, number]))
