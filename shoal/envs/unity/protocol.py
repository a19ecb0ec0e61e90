"""What a Unity player and its trainer say to each other: the messages of ML-Agents' protocol, by the numbers of their fields.

The descriptors live in a pool of their own, so that no other package's messages of the same name get in the way. Packed floats
and bools are declared as the bytes that they are on the wire: numpy reads and writes them without a loop.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

METHOD = ("communicator_objects.UnityToExternalProto", "Exchange")
"""Service and its one method. The trainer serves, the player calls."""
VERSION = "1.5.0"
"""Of the protocol that is spoken here; versions with another first number are other protocols."""
STEP, RESET, QUIT = range(3)
OK = 200
PACKAGE = "shoal_unity"

MESSAGES = {
    "Message": "header=1 Header, output=2 Output, input=3 Input",
    "Header": "status=1 int, message=2 text",
    "Output": "rl_output=1 RLOutput, initialisation=2 InitialisationOutput",
    "Input": "rl_input=1 RLInput, initialisation=2 InitialisationInput",
    "InitialisationOutput": "name=1 text, version=2 text, behaviours=5 [BehaviourInfo], package=7 text, can=8 Capabilities",
    "InitialisationInput": "seed=1 int, version=2 text, package=3 text, can=4 Capabilities, num_areas=5 int",
    "Capabilities": "base=1 bool, many_pngs=2 bool, mapping=3 bool, hybrid=4 bool, variable=6 bool, groups=7 bool",
    "BehaviourInfo": "name=7 text, actions=9 ActionInfo",
    "ActionInfo": "continuous=1 int, discrete=2 int, branches=3 [int]",
    "RLOutput": "agents=2 {AgentInfos}, side_channel=3 bytes",
    "AgentInfos": "value=1 [AgentInfo]",
    "AgentInfo": "reward=7 float, done=8 bool, max_step_reached=9 bool, id=10 int, mask=11 bytes, observations=13 [Observation], "
    "group_id=14 int, group_reward=15 float",
    "Observation": "shape=1 [int], compression=2 int, png=3 bytes, floats=4 Floats, mapping=5 [int], name=8 text",
    "Floats": "data=1 bytes",
    "RLInput": "actions=1 {AgentActions}, command=4 int, side_channel=5 bytes",
    "AgentActions": "value=1 [AgentAction]",
    "AgentAction": "continuous=6 bytes, discrete=7 [int]",
}  # fmt: skip
"""Message -> its fields: `name=number type`; `[type]` repeated, `{type}` a map by name."""

_FIELD = re.compile(r"(\w+)=(\d+) ([\[{]?)(\w+)")
_SCALARS = {
    "int": FieldDescriptorProto.TYPE_INT32, "bool": FieldDescriptorProto.TYPE_BOOL, "text": FieldDescriptorProto.TYPE_STRING,
    "float": FieldDescriptorProto.TYPE_FLOAT, "bytes": FieldDescriptorProto.TYPE_BYTES,
}  # fmt: skip


def _add_field(message: DescriptorProto, name: str, number: int, kind: str, *, repeated: bool) -> None:
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    field.type = _SCALARS.get(kind, FieldDescriptorProto.TYPE_MESSAGE)
    if kind not in _SCALARS:
        field.type_name = f".{PACKAGE}.{kind}"


def _describe(name: str, fields: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for field, number, many, kind in _FIELD.findall(fields):
        if many == "{":
            entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
            entry.options.map_entry = True
            _add_field(entry, "key", 1, "text", repeated=False)
            _add_field(entry, "value", 2, kind, repeated=False)
            kind = f"{name}.{entry.name}"
        _add_field(message, field, int(number), kind, repeated=bool(many))
    return message


def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3")
    file.message_type.extend(_describe(name, fields) for name, fields in MESSAGES.items())
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


_CLASSES = _classes()
Message, AgentAction = _CLASSES["Message"], _CLASSES["AgentAction"]
