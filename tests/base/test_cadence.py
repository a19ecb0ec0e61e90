import pytest

from shoal.api.experiment import CheckpointConfig
from shoal.api.federation import FederationConfig
from shoal.base.cadence import Moment, episodes_in, is_due, parse_cadence
from shoal.base.errors import InputError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5m", 300.0), (2, 2.0), (0.5, 0.5), ("100_000 steps", "100000 steps"), ("1e6 steps", "1000000 steps"),
        ("1.5e3steps", "1500 steps"), ("50 updates", "50 updates"), (" 1 update ", "1 updates"), ("1 updates", "1 updates"),
    ],
)  # fmt: skip
def test_what_is_meant(written: object, meant: float | str) -> None:
    assert parse_cadence(written) == meant
    config = CheckpointConfig.parse({"every": written})
    assert CheckpointConfig.parse(config.model_dump()) == config, "as config.yaml gives it back"


@pytest.mark.parametrize(
    "written", ["50", "5 minutes", "updates", "-3 updates", "1.5 updates", "every 5m", None, True, [5]]
)
def test_what_is_not_understood(written: object) -> None:
    with pytest.raises(
        InputError, match=r"^checkpoint.every = .*: write a time \(30s, 5m, 2h\), '100_000 steps' or '50 updates'$"
    ):
        CheckpointConfig.parse({"every": written}, at="checkpoint")


@pytest.mark.parametrize("written", [0, -1, "0s", "0 steps", "1.25e1 updates"])
def test_nothing_is_not_enough(written: object) -> None:
    with pytest.raises(InputError, match=r"^checkpoint.every = .*: should be more than nothing: write a time"):
        CheckpointConfig.parse({"every": written}, at="checkpoint")


def test_episodes_are_counted_by_federations_alone() -> None:
    every = FederationConfig.parse({"every": "1_000 episodes"}).every
    assert every == "1000 episodes"
    assert [episodes_in(each) for each in (every, "50 updates", 50.0)] == [1000, None, None]
    with pytest.raises(InputError, match="nobody counts episodes for this: write a time"):
        CheckpointConfig.parse({"every": "20 episodes"}, at="checkpoint")
    with pytest.raises(InputError, match="'50 updates' or '20 episodes'"):
        FederationConfig.parse({"every": "often"}, at="federation")


def test_time_counts_from_the_last() -> None:
    assert not is_due(5.0, Moment(10.0), Moment(14.9, 10**9, 10**9))
    assert is_due(5.0, Moment(10.0), Moment(15.0))


def test_counts_are_those_of_the_run() -> None:
    moments = [Moment(0.0, steps, steps // 30) for steps in range(0, 1000, 30)]
    for every, of in (("100 steps", "steps"), ("4 updates", "updates")):
        last, due = moments[0], []
        for now in moments:
            if is_due(every, last, now):
                last = now
                due.append(getattr(now, of))
        wanted = [120, 210, 300, 420, 510, 600, 720, 810, 900] if of == "steps" else [4, 8, 12, 16, 20, 24, 28, 32]
        assert due == wanted
    assert not is_due("50 updates", Moment(updates=60), Moment(1e9, 10**9, 99))
    assert is_due("50 updates", Moment(updates=60), Moment(updates=100))
