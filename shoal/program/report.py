"""A Program for people and scripts: workers, processes, streams, batch sizes, memory, every resolved setting."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from shoal.api.program import MailboxStream, Program, RingStream, SharedStream, Stream
from shoal.program.placement import lanes_per_batch
from shoal.streams import names

NAMES = {"policy": "policy worker", "buffer": "buffer worker", "evaluation": "evaluation worker"}
"""How people call workers whose kind alone would be misread."""


def plan_of(program: Program) -> dict[str, Any]:
    """What would run."""
    policies: dict[str, dict[str, Any]] = {}
    for name in program.learners:
        spec, facts = program.policies[name], program.policies[name].facts
        samples = [program.streams[names.sample(producer, name)] for producer in range(program.producers)]
        shards = range(program.buffers if facts.replays else 0)
        batches = [program.streams[names.batch(shard, name)] for shard in shards]
        policies[name] = {
            "agents": list(spec.group.agents),
            "observation_space": str(spec.group.observation_space),
            "action_space": str(spec.group.action_space),
            "parameters": facts.parameters,
            "lanes": spec.lanes,
            "rows_per_fragment": facts.rows,
            "batch": lanes_per_batch(program.experiment, spec.lanes) * facts.unroll,
            "bytes_per_version": facts.nbytes,
            "bytes_of_sample_ring": sum(map(nbytes_of, samples)),
            "sequences_of_replay": facts.sequences,
            "bytes_of_replay": facts.replay_nbytes + sum(map(nbytes_of, batches)),
            "on_device": _on_device(program, name),
            "notes": list(facts.notes),
        }
    kinds = Counter(NAMES.get(worker.kind, worker.kind) for worker in program.workers)
    replay = sum(program.policies[name].facts.replay_nbytes for name in program.learners)  # streams are counted as such
    return {
        "workers": {"controller": 1, **kinds},
        "processes": {
            process.name: {
                "workers": [worker.name for worker in process.workers],
                "resources": process.resources,
                "device": process.device,
                "threads": process.threads,
            }
            for process in program.processes
        },
        "streams": {name: _stream(stream) for name, stream in program.streams.items()},
        "policies": policies,
        "games": _games(program),
        "memory_bytes": replay + sum(map(nbytes_of, program.streams.values())),
        "settings": program.experiment.model_dump(),
    }


def _on_device(program: Program, name: str) -> dict[str, Any]:
    """What one replica of a policy's trainer keeps there, what is kept for replay by choice."""
    facts, replicas = program.policies[name].facts, program.trainers
    if facts.replays:
        batch = facts.replay_nbytes // facts.sequences * (facts.drawn // replicas)
    else:
        samples = [program.streams[names.sample(producer, name)] for producer in program.producers_of(0)]
        batch = sum(stream.layout.nbytes for stream in samples if isinstance(stream, RingStream))
    placement = program.experiment.placement
    kept = facts.replay_nbytes // replicas if facts.replays and placement.replay_device == "trainer" else 0
    return {
        "device": placement.device, "bytes_of_parameters": facts.learner_nbytes, "bytes_of_batch": batch, "bytes_of_replay": kept,
    }  # fmt: skip


def _games(program: Program) -> dict[str, int] | None:
    """Games that run as processes of their own, by the one that was looked at."""
    one = program.footprint
    if one is None:
        return None
    copies = math.ceil(program.experiment.env.num_envs / program.producers)
    count = program.producers * math.ceil(copies / one.copies)
    threads, memory = one.threads // one.games, one.memory // one.games
    return {"count": count, "threads": count * threads, "memory_bytes": count * memory}


def nbytes_of(stream: Stream) -> int:
    """Bytes that a stream takes on one machine."""
    match stream:
        case RingStream():
            return stream.layout.nbytes * stream.slots
        case MailboxStream():
            return stream.nbytes * stream.versions
        case SharedStream():
            return stream.nbytes + stream.beside
    return stream.nbytes * len(stream.ranks)


def _stream(stream: Stream) -> dict[str, Any]:
    """From whom to whom, and how many bytes."""
    match stream:
        case RingStream():
            ends = {"kind": "ring", "from": [stream.writer], "to": [stream.reader], "slots": stream.slots}
        case MailboxStream():
            ends = {"kind": "mailbox", "from": [stream.writer], "to": list(stream.readers)}
        case SharedStream():
            ends = {"kind": "shared", "from": list(stream.writers), "to": list(stream.readers)}
        case _:
            ends = {"kind": "tally", "from": list(stream.ranks), "to": list(stream.ranks)}
    return {**ends, "bytes": nbytes_of(stream)}
