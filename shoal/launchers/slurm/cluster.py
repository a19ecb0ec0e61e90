"""What a batch job asks for: which address a peer reaches this node at, a free port, and whether all Ray nodes have joined.

`python -m shoal.launchers.slurm.cluster address PEER | port | wait ADDRESS NODES SECONDS`; answers on stdout.
"""

from __future__ import annotations

import logging
import socket
import sys
import time

from shoal.base.errors import ShoalError


def address(peer: str) -> str:
    """The address of this machine on the network that leads to `peer`. No packet is sent."""
    try:
        family, kind, _, _, target = socket.getaddrinfo(peer, 9, socket.AF_INET, socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ShoalError(
            f"no way from here to the node {peer} ({error}): is its NodeAddr in Slurm's configuration right?"
        ) from None


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def wait(address: str, nodes: int, seconds: float) -> str:
    """Until `nodes` Ray nodes have joined; says what the cluster has."""
    import ray

    deadline = time.monotonic() + seconds
    ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    try:
        while (joined := sum(node["Alive"] for node in ray.nodes())) < nodes:
            if time.monotonic() > deadline:
                raise ShoalError(
                    f"{joined} of {nodes} Ray nodes joined {address} within {seconds:g} s: "
                    "may the nodes reach each other on all ports, and do they share this folder?"
                )
            time.sleep(0.2)
        total = ray.cluster_resources()
    finally:
        ray.shutdown()
    return f"Ray at {address}: {joined} nodes, {total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs"


def main(words: list[str]) -> None:
    """One question, one answer."""
    match words:
        case ["address", peer]:
            print(address(peer))
        case ["port"]:
            print(free_port())
        case ["wait", where, nodes, seconds]:
            print(wait(where, int(nodes), float(seconds)), flush=True)
        case _:
            raise ShoalError(f"not a question: {' '.join(words)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ShoalError as problem:
        print(f"shoal: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
