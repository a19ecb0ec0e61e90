"""A player whose agents see the same for ever and take two numbers: for measuring the exchange alone."""

from __future__ import annotations

import sys

import grpc
from unity_player import floats, inside, packed_ints, part, read, whole


def main() -> None:
    options = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
    port, agents, size = (int(options[key]) for key in ("--mlagents-port", "--agents", "--floats"))
    exchange = grpc.insecure_channel(f"localhost:{port}").unary_unary(
        "/communicator_objects.UnityToExternalProto/Exchange"
    )
    header = part(1, whole(1, 200))
    exchange(header + part(2, part(2, part(1, b"still") + part(2, b"1.5.0"))), wait_for_ready=True)
    seen = packed_ints(1, [size]) + part(4, floats(1, [0.5] * size))
    infos = b"".join(part(1, whole(10, i + 1) + part(13, seen)) for i in range(agents))
    output = part(1, part(2, part(1, b"Still?team=0") + part(2, infos)))
    behaviour = part(5, part(7, b"Still?team=0") + part(9, whole(1, 2)))
    message, reply = header + part(2, output + part(2, behaviour)), exchange(header)
    while read(inside(reply, 3, 1)).get(4, [0])[0] != 2:
        reply = exchange(message)
        message = header + part(2, output)


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError:
        sys.exit(0)
