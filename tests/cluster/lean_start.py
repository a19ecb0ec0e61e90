"""What `ray start` leaves out in tests: processes that no flag switches off.

RAY_START_HOOK names the function. Without them a node starts in a third of the time and weighs half as much.
"""

from __future__ import annotations

from typing import Any

from ray import _raylet
from ray._private import services

# The raylet insists on an agent, gives it further arguments, and dies when it does.
_NO_AGENT = '--dashboard_agent_command=sh -c "exec sleep infinity" agent'
_ITS_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")


def leave_out(params: Any, head: bool) -> None:
    """Starts no Ray Client server and no dashboard on the head, and no dashboard agent. The runtime_env agent stays."""
    params.ray_client_server_port = None
    start = services.start_ray_process

    def start_without_agent(command: list[str], *args: Any, **kwargs: Any) -> Any:
        return start(_without_agent(command), *args, **kwargs)

    services.start_ray_process = start_without_agent
    services.start_api_server = lambda *args, **kwargs: (None, None)


def _without_agent(command: list[str]) -> list[str]:
    flags = dict(part.split("=", 1) for part in command if part.startswith("--") and "=" in part)
    if "--dashboard_agent_command" not in flags:
        return command
    for port in _ITS_PORTS:  # the raylet waits for them; -1 is what an agent without services writes
        _raylet.persist_port(flags["--session_dir"], flags["--node_id"], port, -1)
    return [_NO_AGENT if part.startswith("--dashboard_agent_command=") else part for part in command]
