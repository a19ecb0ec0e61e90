"""Random faults over roles, phases and recipes, for as long as wanted: what recovers, how fast, what is lost, what is left behind.

    python tools/chaos --seconds 1800 --every 20 --seed 1
    python tools/chaos --on ray --nodes 5 --seconds 1800

Each round trains one case twice for a while: undisturbed, and with a fault every so many seconds. Faults come from outside
(SIGKILL, SIGSTOP; the disk is full, so that the run ends and is resumed; every fsync is slow; on a cluster a link is cut, a machine
dies and another joins) and from inside the environment (it raises, hangs, ends its process, pays NaN). They strike while it starts,
while it trains, or right after another one. At the end a matrix of roles and faults is printed, with goodput (environment steps
against the undisturbed twin), recovery times, updates lost with a trainer, and leaks (processes, shared memory, open files,
temporary files); the exit code is 1 if anything hung, leaked, or did not balance.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from live_run import LIMIT, LiveRun
from sites import SIGNALS, Local, Machines, Site
from tally import Tally

CASES: dict[str, list[str]] = {
    "ppo, 2 actors": ["cartpole", "placement.actors=2", "placement.max_lag=1"],
    "ppo, in step": ["cartpole", "placement.trainers=2"],
    "ppo, policy worker": ["cartpole", "placement.actors=2", "placement.inference=worker"],
    "ppo, evaluated": ["cartpole", "placement.actors=1", "evaluation.every=2s", "evaluation.episodes=4"],
    "ppo, memory": ["cartpole-memory", "placement.actors=1", "env.kwargs={}"],
    "dqn, one process": ["cartpole-dqn", "placement.trainers=1"],
    "dqn, 2 buffers": ["cartpole-dqn", "placement.actors=2", "placement.buffers=2"],
    "a3c, one memory": ["cartpole-a3c", "placement.trainers=2"],
    "a4c, averaged": ["cartpole-a4c", "placement.trainers=2"],
}
ONE_MACHINE = {"a3c, one memory"}
"""Replicas that share memory cannot be on several machines."""
FROM_INSIDE = ("raise", "hang", "exit", "nan")
SLOW_FOR = 4.0
"""Seconds of a slow disk."""
BUILDING = 60.0
"""Seconds that a process may take to build its workers, on top of what it has elsewhere."""
STARTING, AGAIN, TRAINING = "while it starts", "right after another", "while it trains"


def main() -> None:
    """Until the time is up; at least one pair of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=["local", "ray"], default="local")
    parser.add_argument("--nodes", type=int, default=5, help="machines of the cluster")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two faults of a run")
    parser.add_argument("--run", type=float, default=90.0, help="seconds of one run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", action="append", choices=list(CASES), help="one of them; may be given several times")
    given = parser.parse_args()
    dice, tally = random.Random(given.seed), Tally()
    cases = given.case or [case for case in CASES if given.on == "local" or case not in ONE_MACHINE]
    site = Local() if given.on == "local" else Machines(given.nodes)
    if not site.can_fill:
        print("no file system may be mounted here: the disk is never full")
    began = time.monotonic()
    try:
        while time.monotonic() - began < given.seconds:
            dice.shuffle(cases)
            for case in cases:
                seed = dice.randrange(1000)
                rates = {
                    disturbed: play(site, case, tally, dice, seed, given.run, given.every, disturbed=disturbed)
                    for disturbed in dice.sample([False, True], 2)
                }
                if rates[False]:
                    tally.goodput[case].append(rates[True] / rates[False])
                said = f"{case}: {rates[True]:,.0f} of {rates[False]:,.0f} steps/s, {tally.faults} faults"
                print(f"{time.monotonic() - began:6.0f} s  {said}", flush=True)
                if time.monotonic() - began > given.seconds:
                    break
    finally:
        tally.report()
        site.close()
    sys.exit(1 if tally.problems else 0)


def play(
    site: Site, case: str, tally: Tally, dice: random.Random, seed: int, seconds: float, every: float, *, disturbed: bool
) -> float:  # fmt: skip
    """One run; its environment steps per second. The undisturbed twin is asked as often as the other."""
    recipe, *words = CASES[case]
    run, problems = LiveRun(site, recipe, words, seconds, seed), []
    if disturbed and dice.random() < 0.25:
        while not run.workers() and not run.ended:
            time.sleep(0.1)
        strike(site, case, run, tally, dice, STARTING)
    if not run.until_update(2):
        problems.append(f"it did not begin: {run.said()}")
    began = time.monotonic()
    due = began + every * dice.uniform(0.3, 1.0)
    while run.begun is not None and not run.ended and due < began + seconds - 0.4 * every:
        run.row()
        if time.monotonic() < due:
            time.sleep(0.1)
            continue
        due += every
        if disturbed:
            strike(site, case, run, tally, dice, TRAINING)
        else:
            run.workers()
    problems += run.end()
    if disturbed:
        tally.apart.append(time.monotonic() - began)
    for problem in problems:
        tally.found(f"{case}, {'disturbed' if disturbed else 'undisturbed'}: {problem}")
    return run.rate()


def strike(site: Site, case: str, run: LiveRun, tally: Tally, dice: random.Random, phase: str) -> None:
    """A fault that is drawn, and what comes of it. Whoever was killed or hangs must live again, and training go on."""
    workers = run.workers()
    if not workers or run.ended:
        return
    role, fault = draw(site, workers, dice, phase)
    before, deaths, lives, struck = run.update, len(run.went_on_at()), run.restarts(), time.monotonic()
    if role == "disk" and fault == "full":
        full_disk(site, case, run, tally)
        return
    if role == "disk":
        site.slow_disk(SLOW_FOR)
        struck = time.monotonic()
    elif role == "machine":
        homes = {worker["node"] for worker in workers if worker["kind"] == "trainer"}
        site.hurt_machine(fault, homes if fault == "machine dies" else set())
        struck = time.monotonic()
    else:
        worker = dice.choice([worker for worker in workers if worker["kind"] == role])
        hurt(site, worker, fault)
        if phase == TRAINING and dice.random() < 0.1:
            tally.phases[AGAIN] += 1
            hurt(site, dice.choice(workers), dice.choice(list(SIGNALS)))
    tally.phases[phase] += 1
    cell = tally.cells[role, fault]
    reborn = fault in {*SIGNALS, "hang", "exit"}
    seconds = LIMIT + (BUILDING if phase == STARTING else 0.0)
    if run.until(lambda: run.update >= before + 2 and (run.restarts() > lives or not reborn), seconds):
        cell.recovered.append(time.monotonic() - struck)
    elif not run.ended:
        cell.hung += 1
        tally.found(f"{case}: {role} {fault} {phase}: not recovered within {seconds:g} s: {run.said()}")
    again = run.went_on_at()[deaths:]
    if role == "trainer" and again:
        tally.lost.append(max(0, before - max(again)))


def draw(site: Site, workers: list[dict[str, object]], dice: random.Random, phase: str) -> tuple[str, str]:
    """A worker kind in seven of ten cases, else the disk or a machine; then a fault that it can have."""
    others: list[tuple[str, str]] = [("machine", fault) for fault in site.machine_faults()]
    if phase == TRAINING:
        others += [("disk", "slow")] + [("disk", "full")] * site.can_fill
    if others and phase != STARTING and dice.random() < 0.3:
        return dice.choice(others)
    role = str(dice.choice(sorted({str(worker["kind"]) for worker in workers})))
    return role, dice.choice([*SIGNALS, *(FROM_INSIDE if role == "actor" else ())])


def hurt(site: Site, worker: dict[str, object], fault: str) -> None:
    """Those from inside strike whichever environment steps first."""
    if fault in SIGNALS:
        site.signal(worker, SIGNALS[fault])
    else:
        site.fault.write_text(fault)


def full_disk(site: Site, case: str, run: LiveRun, tally: Tally) -> None:
    """The run ends with one line, and goes on from its checkpoint once there is room."""
    struck = time.monotonic()
    filler = site.fill_disk()
    while not run.ended and time.monotonic() < struck + LIMIT:
        time.sleep(0.05)
    filler.unlink()
    tally.phases[TRAINING] += 1
    cell = tally.cells["disk", "full"]
    if not run.ended or "No space left on device" not in run.said():
        tally.found(f"{case}: a full disk did not end it with its line: {run.said()}")
    if not run.ended:
        cell.hung += 1
        return
    starts = run.starts()
    run.go_on()
    if run.until(lambda: run.starts() > starts) and (run.until_update(run.update + 2) or run.process.returncode == 0):
        cell.recovered.append(time.monotonic() - struck)
    else:
        cell.hung += 1
        tally.found(f"{case}: it did not go on after a full disk: {run.said()}")


if __name__ == "__main__":
    main()
