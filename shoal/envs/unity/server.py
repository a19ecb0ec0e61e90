"""The trainer's end of a player's connection: a gRPC server on loopback whose one method hands over bytes and waits for bytes."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from shoal.base.errors import InputError
from shoal.envs.unity.protocol import METHOD

ADDRESS = "127.0.0.1"


class ExchangeServer:
    """Serves one player. Legal order: `take` a call, `reply` to it; again. Port 0: any that is free."""

    def __init__(self, port: int = 0) -> None:
        self._calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._busy = threading.Lock()
        service, method = METHOD
        handler = grpc.method_handlers_generic_handler(
            service, {method: grpc.unary_unary_rpc_method_handler(self._exchange)}
        )
        # Without so_reuseport a port has one server; images of many agents are larger than gRPC's own limit.
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="unity")
        self._server = grpc.server(self._threads, handlers=(handler,), options=options)
        try:
            self.port = self._server.add_insecure_port(f"{ADDRESS}:{port}")
        except RuntimeError as error:
            raise InputError(f"env.kwargs.port = {port} is in use: end who has it, or choose another") from error
        self._server.start()

    def take(self, timeout: float) -> bytes | None:
        """The next call; None: there was none in `timeout` seconds."""
        try:
            return self._calls.get(timeout=timeout)
        except queue.Empty:
            return None

    def reply(self, answer: bytes) -> None:
        """To the call that was taken."""
        self._replies.put(answer)

    def close(self, farewell: bytes) -> None:
        """Answer the open call, if there is one, and serve no more."""
        self._replies.put(farewell)
        self._server.stop(0.5).wait()
        self._threads.shutdown(wait=False)

    def _exchange(self, request: bytes, context: Any) -> bytes:
        if not self._busy.acquire(blocking=False):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another player is being served")
        try:
            self._calls.put(request)
            return self._replies.get()
        finally:
            self._busy.release()
