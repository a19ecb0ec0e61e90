"""The batch script: what Slurm reads, what bash makes of it, and what is refused before anything is submitted."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.base.errors import InputError, ShoalError
from shoal.cli import main
from shoal.launchers.slurm import cluster, jobs
from shoal.launchers.slurm.script import Job, Part, directives, settings, train, write

ODD = ("name=it's $HOME", "env.kwargs={a: [1, 2]}", 'log.note=`date` "x" \\n', "k=;exit 3;", "stop.steps=1_000")


def job(**changes: object) -> Job:
    values: dict[str, object] = {
        "recipe": "cartpole", "experiment": "cartpole", "trial": "t", "overrides": (), "name": "cartpole",
        "parts": (Part(nodes=3, cpus=36),),
    }  # fmt: skip
    return Job(**{**values, **changes})  # type: ignore[arg-type]


MIXED = (Part(1, 8, gpus=4, partition="gpu"), Part(2, 36, partition="cpu"))


# ---------------------------------------------------------------- what Slurm reads


def test_directives_of_equal_nodes() -> None:
    wanted = job(parts=(Part(3, 36, gpus=2, partition="long"),), account="lab", time="4:00:00", name="night")
    assert list(directives(wanted)) == [
        "#SBATCH --job-name=night",
        "#SBATCH --output=runs/.slurm/cartpole/t/output.log",
        "#SBATCH --signal=B:USR1@60 --requeue --open-mode=append",
        "#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=36",
        "#SBATCH --gpus-per-node=2",
        "#SBATCH --partition=long",
        "#SBATCH --account=lab",
        "#SBATCH --time=4:00:00",
    ]


def test_a_heterogeneous_job_starts_with_the_gpus() -> None:
    lines = list(directives(job(parts=MIXED, time="1-0")))
    assert lines[3:] == [
        "#SBATCH --nodes=1 --ntasks-per-node=1 --cpus-per-task=8",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --partition=gpu",
        "#SBATCH --time=1-0",
        "#SBATCH hetjob",
        "#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=36",
        "#SBATCH --partition=cpu",
        "#SBATCH --time=1-0",
    ]
    assert {"nodes=(1 2)", "cpus=(8 36)", "gpus=(4 0)"} <= set(settings(job(parts=MIXED)))


def test_directives_come_first() -> None:
    """Slurm stops reading them at the first command."""
    lines = write(job(parts=MIXED)).splitlines()
    assert lines[0] == "#!/bin/bash"
    count = len(list(directives(job(parts=MIXED))))
    assert all(line.startswith("#SBATCH ") for line in lines[1 : 1 + count])


@pytest.mark.parametrize("value", ["a b", "x\n#SBATCH --uid=0", 'a"b', "", "$(id)"])
def test_a_value_cannot_leave_its_line(value: str) -> None:
    with pytest.raises(InputError, match="--account = .* one word"):
        write(job(account=value))


# ---------------------------------------------------------------- what bash makes of it


@pytest.mark.parametrize("parts", [(Part(3, 36),), MIXED])
def test_bash_reads_it(parts: tuple[Part, ...]) -> None:
    text = write(job(parts=parts, overrides=ODD, container="docker://a/b:1"))
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: make system-packages")
    path = tmp_path / "job.sh"
    path.write_text(write(job(overrides=("stop.steps=1_000",))))
    done = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def words_of(wanted: Job, resume: str) -> list[str]:
    """The training command as bash would start it."""
    lines = [
        *settings(wanted),
        f"resume=({resume}) address=10.0.0.1:5",
        "run() { printf '%s\\0' \"$@\"; }",
        train(wanted),
    ]
    done = subprocess.run(["bash", "-u"], input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_odd_settings_arrive_as_they_were_typed() -> None:
    assert words_of(job(overrides=ODD, recipe="my file.yaml"), "") == [
        sys.executable, "-m", "shoal.cli", "train", "my file.yaml", "--trial", "t", "--on", "ray", "--address", "10.0.0.1:5", *ODD,
    ]  # fmt: skip
    assert "--resume" in words_of(job(), "--resume")


def test_a_container_wraps_python(in_tmp: Path) -> None:
    wrapped = words_of(job(parts=MIXED, container="image one.sif"), "")
    here = str(Path.cwd())
    assert wrapped[:9] == ["apptainer", "exec", "--nv", "--bind", here, "--pwd", here, "image one.sif", "python3"]
    assert "--nv" not in words_of(job(container="image.sif"), "")


# ---------------------------------------------------------------- what the job asks for


def test_the_address_towards_a_peer() -> None:
    assert cluster.address("127.0.0.1") == "127.0.0.1"
    with pytest.raises(ShoalError, match="no way from here to the node nobody.invalid"):
        cluster.address("nobody.invalid")


def test_a_free_port() -> None:
    with socket.socket() as taken:
        taken.bind(("", cluster.free_port()))


# ---------------------------------------------------------------- submitting


@pytest.fixture
def shoal(in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The command; gives its output, or its one line of complaint."""

    def call(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["shoal", "slurm", *words])
        ended: object = 0
        try:
            main()
        except SystemExit as end:
            ended = end.code or 0
        out, err = capsys.readouterr()
        assert ended == code, err
        return err if code else out

    return call


def test_a_dry_run_writes_nothing(shoal: Callable[..., str], in_tmp: Path) -> None:
    printed = shoal("submit", "cartpole", "--nodes", "2", "--trial", "t", "--name", "x", "--dry-run", "seed=3")
    assert printed == write(job(parts=(Part(2, 1),), name="x", overrides=("seed=3",)))
    assert not list(in_tmp.iterdir())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["cartpol"], "there is no recipe 'cartpol'; did you mean 'cartpole'"),
        (["cartpole", "algorithm.clipp=1"], "did you mean 'clip'"),
        (["cartpole", "--gpu-nodes", "1"], "--gpu-nodes needs --gpus-per-node"),
        (["cartpole", "--gpu-partition", "a"], "need --gpu-nodes"),
        (["cartpole", "--resume"], "--resume needs --trial"),
        (["cartpole", "--resume", "--trial", "new"], "there is no trial 'new'"),
        (["cartpole", "--trial", "old"], "runs/cartpole/old exists already: continue it with --resume"),
        (["cartpole", "--trial", "../x"], "cannot name a folder"),
    ],
)
def test_wrong_words_are_refused_before_slurm_is_asked(
    shoal: Callable[..., str], in_tmp: Path, words: list[str], complaint: str
) -> None:
    (in_tmp / "runs/cartpole/old").mkdir(parents=True)
    assert complaint in shoal("submit", *words, code=2)


def test_without_slurm_the_remedy_is_named(
    shoal: Callable[..., str], in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(in_tmp))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    said = shoal("submit", "cartpole", code=2)
    assert said.startswith("shoal: sbatch is not on this machine: ")
    assert "--dry-run" in said


def test_without_ray_the_remedy_is_named(shoal: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'shoal[cluster]'" in shoal("submit", "cartpole", code=2)


# ---------------------------------------------------------------- finding a job again


def test_a_job_is_found_by_what_people_type(shoal: Callable[..., str], in_tmp: Path) -> None:
    assert "no job was submitted from this folder" in shoal("logs", code=2)
    for number, run in enumerate(("cartpole/a", "cartpole/b", "tag/c"), start=7):
        folder = in_tmp / "runs/.slurm" / run
        folder.mkdir(parents=True)
        (folder / "job-id").write_text(f"{number}\n")
        (folder / "output.log").write_text(f"this is {run}\n")
    for word, number in (("7", 7), ("cartpole/a", 7), ("runs/cartpole/a", 7), ("cartpole", 8), (None, 9)):
        assert jobs.find(word).number == number
    assert shoal("logs", "tag") == "this is tag/c\n"
    assert "did you mean 'cartpole/a'" in shoal("logs", "cartpol/a", code=2)
