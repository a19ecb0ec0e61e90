"""The processes of a run on many machines, and the streams between them, as the run's controller has them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from ray import cloudpickle
from ray.util import placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.api.orders import Stop
from shoal.api.program import Program
from shoal.base.errors import InputError, ShoalError
from shoal.base.faults import VARIABLE, parse_faults
from shoal.checkpoints.checkpoint import Checkpoint
from shoal.checkpoints.portable import portable
from shoal.checkpoints.store import CheckpointStore
from shoal.launchers.launcher import Conductor, RunFiles
from shoal.launchers.life import first_life
from shoal.launchers.local import check_fit
from shoal.launchers.process import ProcessOrder, events_of
from shoal.launchers.process_launcher import ProcessLauncher
from shoal.launchers.ray.agent_watch import AgentWatch
from shoal.launchers.ray.cluster import actor_options, check_shape, labels, reserve
from shoal.launchers.ray.placing import RayLink, RaySupervisor
from shoal.launchers.ray.private import exposure
from shoal.launchers.ray.process import Posting
from shoal.rollout.plans import Plans
from shoal.streams import names
from shoal.streams.shared_streams import StreamHandles
from shoal.streams.transports.ray.agent import MachineAgent, RayAgent
from shoal.streams.transports.ray.messages import News
from shoal.streams.transports.ray.specs import AgentFacts
from shoal.streams.transports.ray.streams import AgentLine, LostError, RayStreams
from shoal.workers.trainer import TrainerSpec

Hear = Callable[[list[News]], None]


def _exposure(agent: MachineAgent) -> str | None:
    """What an agent is asked first: who can change Ray's folder on its machine."""
    return exposure()


class RayLauncher(ProcessLauncher):
    """`me`: the Ray actor that this runs in. `listen` gets what others call there: the ear for reports, and our own agent."""

    def __init__(
        self, program: Program, start: Checkpoint | None, files: RunFiles, me: Any,
        listen: Callable[[Hear, MachineAgent], None],
    ) -> None:  # fmt: skip
        parse_faults(os.environ.get(VARIABLE, ""), events_of(program))
        check_shape(program)
        check_fit(Plans(program), start)
        config, self._count = program.experiment.placement.cluster, len(program.processes)
        self._me, self._home_node, self._json = me, ray.get_runtime_context().get_node_id(), program.to_json()
        self._group = reserve(program, files.name)
        self._ray = RaySupervisor(files.name, self._group, self._place, self._slay, config.wait)
        agent = MachineAgent("home", self._count, self._ray.hear)
        listen(self._ray.hear, agent)
        home = AgentLine("home", agent, me)
        self._agents: dict[str, AgentLine] = {self._home_node: home}
        self._agents_made = 0
        self._watch = AgentWatch(self._agents, self._home_node, program.experiment.placement.hang)
        self._net = RayStreams(program.streams, home, agent)
        life = first_life(program, start)
        super().__init__(program, life, files, self._net, self._ray)
        life = replace(life, start=None)  # it travels with the order of a process
        try:
            for number, process in enumerate(program.processes):
                where = labels(program, process)
                options = {**actor_options(process.resources), **({"label_selector": where} if where else {})}
                self._ray.start(process, number, life, options)
            for node in placement_group_table(self._group)["bundles_to_node_id"].values():
                self._make_agent(node)  # while the processes come up
            self._ray.placed()
            self._place(*(link for link in self._ray.links if link.node))
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------ places

    def _place(self, *links: RayLink) -> None:
        """Processes have found their places: join them to the others, and let them work."""
        facts: dict[str, AgentFacts] = {}
        for link in links:
            facts[link.node] = facts.get(link.node) or self._agent_on(link.node)
        addresses = self._drop_lost()
        lines = {line.key: line for line in self._agents.values()}
        self._net.place({link.name: self._agents[link.node].key for link in links}, lines)
        for link in links:
            handles, meetings = (
                self._agents[link.node].call(MachineAgent.handles, link.name),
                self._net.meetings(link.name),
            )
            posting = Posting(self._order(link, handles, facts[link.node]), facts[link.node], meetings)
            self._ray.begin(link, cloudpickle.dumps(posting), {name: self._net.points[name] for name in meetings})
            link.machine = addresses[link.node]
            self._files.event("placed", process=link.name, node=link.machine, life=link.life.incarnation)

    def _slay(self, node: str, pid: int) -> None:
        """By the agent of its machine: without one it is dead already."""
        if node in self._agents and pid:
            self._agents[node].tell(MachineAgent.kill, pid)

    def _agent_on(self, node: str) -> AgentFacts:
        """The agent of a machine; a new one if there is none, or none any more."""
        self._make_agent(node)
        try:
            problem = self._agents[node].call(_exposure)
        except LostError:
            del self._agents[node]
            self._make_agent(node)
            problem = self._agents[node].call(_exposure)
        if problem is not None:
            raise InputError(problem)
        return self._agents[node].call(MachineAgent.facts)

    def _make_agent(self, node: str) -> None:
        """If a machine has none; nobody waits for it here."""
        if node in self._agents:
            return
        self._agents_made += 1
        key = f"{node[:8]}.{self._agents_made}"
        actor = ray.remote(RayAgent).options(
            name=f"{self._files.name}/agent-{key}", num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )  # fmt: skip
        self._agents[node] = AgentLine(key, None, actor.remote(key, self._count))

    def _drop_lost(self) -> dict[str, str]:
        """Forget machines that are gone; the addresses of those that live."""
        living = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        for node, line in list(self._agents.items()):
            if node not in living or line.dead:
                del self._agents[node]
        return living

    def _order(self, link: RayLink, handles: StreamHandles, facts: AgentFacts) -> ProcessOrder:
        """Machines need not share the run's folder: the part of the checkpoint that a process needs travels with its order."""
        life = link.life
        if (version := self.begins_from()) >= 0:
            found = CheckpointStore(self._files.checkpoints).load(version)
            specs = link.process.workers
            trains = any(isinstance(spec, TrainerSpec) for spec in specs)
            life = replace(life, start=portable(found, [spec.name for spec in specs], learned=trains))
        if life.incarnation:
            life = replace(life, weights=self._weights(link))
        at_home = link.node == self._home_node
        return ProcessOrder(
            facts.pid, self._json, link.name, link.number, handles, facts.heartbeats, life,
            str(self._files.checkpoints.resolve()) if at_home else "", -1, str(self._files.logs.resolve()),
            os.environ.get(VARIABLE, ""),
        )  # fmt: skip

    def _weights(self, link: RayLink) -> dict[str, bytes]:
        """The newest parameters that came here of what a process trains: its next life may be on another machine."""
        found = {}
        for spec in link.process.workers:
            if isinstance(spec, TrainerSpec):
                mailbox, block = (
                    self.mailboxes[spec.policy],
                    np.empty(self._program.policies[spec.policy].facts.nbytes, np.uint8),
                )
                if mailbox.read(mailbox.latest(), block):
                    found[spec.policy] = block.tobytes()
        return found

    # ------------------------------------------------------------ what a run asks for

    def _newest(self, policy: str) -> int:
        return self._net.newest(names.version(policy))

    def run(self, conductor: Conductor) -> str | None:
        """As every launcher; what travelled between machines is an event at the end."""
        caught = super().run(conductor)
        self._files.event("traffic", bytes_of_fragments=self._net.traffic(), versions=self._net.versions_sent())
        return caught

    def close(self) -> None:
        """Stop the processes, kill those that do not, give back what Ray reserved."""
        self._watch.close()
        for tally in self._net.tallies.values():
            tally.abandon()
        self.order("", Stop())
        self._ray.stop()
        for node, line in self._agents.items():
            if node != self._home_node:
                self._end(line)
        remove_placement_group(self._group)
        self._net.close()

    def _end(self, line: AgentLine) -> None:
        with contextlib.suppress(ShoalError):
            line.call(MachineAgent.close)  # its sockets and files go with it
        ray.kill(line.handle, no_restart=True)
