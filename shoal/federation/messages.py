"""What parent and child say to each other, typed: frames in, checked records out. A field that is missing, unknown, of another type
or out of range is a FrameError.

The child speaks first, whoever called whom:

    child  -> hello         what it can
    parent -> offer         recipe, fingerprint, tensors, encoding, how rounds go
    child  -> accept        its own fingerprint and layout are the same; otherwise refuse, with the reason
    parent -> weights       the global ones, whole
    child  -> contribution  after each round
    parent -> weights       what has come of it
    either -> bye           the reason; `over`: do not come back
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.federation.frames import PROTOCOL, Frame, FrameError

Text = Annotated[str, Field(max_length=200)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
Encoding = Literal["fp32", "fp16", "int8", "top_k"]


class Header(BaseModel):
    """Of one kind of message."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    kind: ClassVar[str]
    blocks: ClassVar[int] = 0


class Hello(Header):
    """A child presents itself; its name is that of its certificate."""

    kind: ClassVar[str] = "hello"
    protocols: Annotated[list[Count], Field(min_length=1, max_length=16)]
    session: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Of this life of the child: it stays the same when the child comes back."""
    encodings: Annotated[list[Text], Field(min_length=1, max_length=16)]
    looks: bool
    """It only wants to see the offer."""


class Tensor(Header):
    """One tensor of the model."""

    name: Annotated[str, Field(max_length=300)]
    dtype: Literal["float32"]
    shape: Annotated[list[Annotated[int, Field(ge=0, le=1 << 31)]], Field(max_length=8)]


class Offer(Header):
    """What the parent trains, and how."""

    kind: ClassVar[str] = "offer"
    protocol: Count
    recipe: Word
    fingerprint: Digest
    tensors: Annotated[list[Tensor], Field(min_length=1, max_length=2000)]
    moments: Annotated[list[Count], Field(max_length=100)]
    """Sizes of the normalisers."""
    encoding: Encoding
    share: Annotated[float, Field(gt=0, le=1)]
    """Of the values, in `top_k`."""
    nbytes: Count
    """Of an encoded block."""
    round: Annotated[str, Field(max_length=40)] | Annotated[float, Field(gt=0, le=1e6)]
    alpha: Annotated[float, Field(gt=0, le=1)]
    waits: bool
    """Children wait for the weights that come of a round before they go on."""


class Accept(Header):
    """The child has the same."""

    kind: ClassVar[str] = "accept"
    fingerprint: Digest
    layout: Digest
    """Of tensors and normalisers."""


class Refuse(Header):
    """One end cannot go on; a person has to do something."""

    kind: ClassVar[str] = "refuse"
    reason: Text


class Weights(Header):
    """Global weights. Blocks: parameters, normalisers."""

    kind: ClassVar[str] = "weights"
    blocks: ClassVar[int] = 2
    version: Count
    whole: bool
    """All of them, as float32; otherwise encoded against those that the child has."""
    answers: Annotated[int, Field(ge=-1, lt=2**53)]
    """The newest round of this session that the parent has taken in; -1: none."""
    verdict: Literal["", "mixed", "set aside"]
    steps: Count
    """Of all children."""


class Contribution(Header):
    """What a child has learned in a round. Blocks: parameters, normalisers."""

    kind: ClassVar[str] = "contribution"
    blocks: ClassVar[int] = 2
    round: Count
    base: Count
    """The version that it is encoded against."""
    samples: Count
    """Environment steps of the round."""
    updates: Count
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    error: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    """What the encoding keeps back so far, as a part of what was learned in the round: lengths of vectors."""
    score: Finite | None
    """Mean return of the episodes that ended since the last round."""
    episodes: Count


class Bye(Header):
    """The connection ends."""

    kind: ClassVar[str] = "bye"
    reason: Text
    over: bool
    """The run is over, or the child is not wanted: it should not come back."""


HEADERS: dict[str, type[Header]] = {cls.kind: cls for cls in (Hello, Offer, Accept, Refuse, Weights, Contribution, Bye)}

H = TypeVar("H", bound=Header)


@dataclass(frozen=True)
class Parcel:
    """A message and its blocks."""

    header: Header
    blocks: tuple[bytes, ...] = ()

    @property
    def frame(self) -> Frame:
        """As it is sent."""
        return Frame(self.header.kind, self.header.model_dump(), self.blocks)

    @classmethod
    def of(cls, frame: Frame) -> Self:
        """Checked."""
        kind = HEADERS[frame.kind]
        if len(frame.blocks) != kind.blocks:
            raise FrameError(f"a {frame.kind} has {kind.blocks} blocks, not {len(frame.blocks)}")
        try:
            return cls(kind.model_validate(frame.header), frame.blocks)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "header"
            raise FrameError(f"a {frame.kind} whose {where[:60]} is wrong: {first['type']}") from None


def expect(parcel: Parcel, kind: type[H]) -> H:
    """The header, if it is of that kind; a refusal or a bye in its place is told as it is."""
    header: Any = parcel.header
    if isinstance(header, kind):
        return header
    if isinstance(header, Refuse | Bye):
        raise RefusedError(header.reason, over=not isinstance(header, Bye) or header.over)
    raise FrameError(f"a {kind.kind} is due, and a {header.kind} came")


class RefusedError(Exception):
    """The other end said no."""

    def __init__(self, reason: str, *, over: bool) -> None:
        super().__init__(reason)
        self.reason, self.over = reason, over


def common_protocol(theirs: list[int]) -> int:
    """The newest that both ends know."""
    if PROTOCOL not in theirs:
        raise FrameError(f"they speak protocols {theirs}, this is {PROTOCOL}: use the same release at both ends")
    return PROTOCOL
