"""The hosts of a run on many machines, and the streams between them, as the run's controller has them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray.util import remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.base.errors import ShoalError
from shoal.base.faults import VARIABLE, parse_faults
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.host import HostOrder
from shoal.launchers.local import check_fit
from shoal.launchers.processes import ProcessLauncher
from shoal.launchers.ray.cluster import actor_options, check_shape, demand, labels, needed, reserve
from shoal.launchers.ray.placing import RayLink, RaySupervisor
from shoal.monitoring.run_folder import RunFolder
from shoal.program.build import first_life
from shoal.program.hosts import hosts_of
from shoal.program.program import Program
from shoal.program.wiring import plan_wiring
from shoal.streams.shared_streams import StreamHandles
from shoal.streams.transports.ray.agent import HostAgent, RayAgent
from shoal.streams.transports.ray.messages import Away, Said
from shoal.streams.transports.ray.specs import AgentFacts
from shoal.streams.transports.ray.streams import AgentLine, LostError, RayStreams
from shoal.workers.controller import Controller

Hear = Callable[[list[Said | Away]], None]


class RayLauncher(ProcessLauncher):
    """`me`: the Ray actor that this runs in. `listen` gets what others call there: the ear for reports, and our own agent."""

    def __init__(
        self, program: Program, start: Checkpoint | None, folder: RunFolder, me: Any,
        listen: Callable[[Hear, HostAgent], None],
    ) -> None:  # fmt: skip
        parse_faults(os.environ.get(VARIABLE, ""))
        check_shape(program)
        if start is not None:
            check_fit(program, start)
        config, hosts = program.experiment.placement.cluster, hosts_of(program)
        self._me, self._home_node, self._hosts = me, ray.get_runtime_context().get_node_id(), len(hosts)
        self._group = reserve(program, folder.name)
        self._ray = RaySupervisor(folder.name, self._group, self._place, config.wait)
        agent = HostAgent("home", len(hosts), self._ray.hear)
        listen(self._ray.hear, agent)
        home = AgentLine("home", agent, me)
        self._agents: dict[str, AgentLine] = {self._home_node: home}
        self._agents_made = 0
        self._net = RayStreams(plan_wiring(program, hosts), home, agent, exact=program.exact, halved=_halved(program))
        super().__init__(program, start, folder, self._net, self._ray)
        # workers on other machines find no checkpoint there: what they hold begins anew
        life, where = replace(first_life(program, start), start=None, whole=False), labels(program)
        try:
            for number, (host, asked) in enumerate(demand(program)):
                options = {**actor_options(asked), **({"label_selector": where} if where else {})}
                self._ray.start(host, number, life, options, needed=needed(program, host))
            self._ray.placed()
            self._place(*(link for link in self._ray.links if link.node))
        except BaseException:
            self.close()
            raise

    def contents(self, version: int) -> dict[str, bytes]:
        """Workers on other machines would not find them there: checkpoints hold what was learnt, and workers begin anew."""
        return {}

    # ------------------------------------------------------------ places

    def _place(self, *links: RayLink) -> None:
        """Hosts have found their places: join them to the others, and let them work."""
        facts: dict[str, AgentFacts] = {}
        for link in links:
            facts[link.node] = facts.get(link.node) or self._agent_on(link.node)
        addresses = self._drop_lost()
        lines = {line.key: line for line in self._agents.values()}
        self._net.place({link.host.name: self._agents[link.node].key for link in links}, lines)
        for link in links:
            handles = self._agents[link.node].call(HostAgent.handles, link.host.name)
            handles = handles._replace(tallies={**handles.tallies, **self._net.meetings(link.host.name)})
            self._ray.begin(link, self._order(link, handles, facts[link.node]), facts[link.node])
            link.machine = addresses[link.node]
            self._folder.event("placed", host=link.host.name, node=link.machine, life=link.life.incarnation)

    def _agent_on(self, node: str) -> AgentFacts:
        """The agent of a machine; a new one if there is none, or none any more."""
        if node in self._agents:
            try:
                return self._agents[node].call(HostAgent.facts)
            except LostError:
                del self._agents[node]
        self._agents_made += 1
        key = f"{node[:8]}.{self._agents_made}"
        actor = ray.remote(RayAgent).options(
            name=f"{self._folder.name}/agent-{key}", num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )  # fmt: skip
        self._agents[node] = AgentLine(key, None, actor.remote(key, self._hosts))
        return self._agents[node].call(HostAgent.facts)

    def _drop_lost(self) -> dict[str, str]:
        """Forget machines that are gone; the addresses of those that live."""
        living = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        for node, line in list(self._agents.items()):
            if node not in living or line.dead:
                del self._agents[node]
        return living

    def _order(self, link: RayLink, handles: StreamHandles, facts: AgentFacts) -> HostOrder:
        life = link.life
        if link.host.has("trainer") and self.checkpoint >= 0:
            life = replace(life, start=CheckpointStore(self._folder.checkpoints).load(self.checkpoint))
        return HostOrder(
            facts.pid, self._program.experiment.model_dump(), link.host, link.number, handles, facts.pulses, life,
            "", -1, str(self._folder.logs.resolve()), os.environ.get(VARIABLE, ""),
        )  # fmt: skip

    # ------------------------------------------------------------ what a run asks for

    def _out(self, policy: str) -> int:
        return self._net.newest(f"version/{policy}")

    def run(self, controller: Controller) -> str | None:
        """As every launcher; what travelled between machines is noted at the end."""
        caught = super().run(controller)
        self._folder.event("traffic", bytes_of_fragments=self._net.traffic())
        return caught

    def close(self) -> None:
        """Stop the hosts, kill those that do not, give back what Ray reserved."""
        for tally in self._net.tallies.values():
            tally.abandon()
        self._ray.stop(self._tell)
        for node, line in self._agents.items():
            if node != self._home_node:
                self._end(line)
        remove_placement_group(self._group)
        self._net.close()

    def _end(self, line: AgentLine) -> None:
        with contextlib.suppress(ShoalError):
            line.call(HostAgent.close)  # its sockets and files go with it
        ray.kill(line.handle, no_restart=True)

    def _tell(self, link: RayLink, word: str) -> None:
        line = self._agents.get(link.node)
        if line is not None and not line.dead:
            try:
                line.call(HostAgent.order, link.number, word)
            except LostError:
                return


def _halved(program: Program) -> dict[str, int]:
    """Mailbox -> bytes of parameters that travel as float16."""
    if program.experiment.placement.cluster.weights == "fp32":
        return {}
    return {f"version/{name}": plan.algorithm.flat.parameters.nbytes for name, plan in program.policies.items()}
