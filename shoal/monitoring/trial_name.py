"""Names for trials that nobody named: `brisk-herring-07` is easier to say, type and remember than a time stamp."""

from __future__ import annotations

from random import SystemRandom

_ADJECTIVES = [
    "agile", "amber", "bold", "bright", "brisk", "calm", "clever", "coral", "crisp", "deft", "eager", "fair",
    "fleet", "gentle", "glad", "golden", "hardy", "jolly", "keen", "lively", "lucid", "merry", "mild", "noble",
    "pearly", "plucky", "quick", "quiet", "rapid", "silver", "steady", "swift",
]  # fmt: skip
_FISH = [
    "anchovy", "barbel", "bass", "bream", "carp", "char", "chub", "cod", "dace", "darter", "eel", "flounder",
    "goby", "grayling", "guppy", "haddock", "halibut", "herring", "mackerel", "minnow", "mullet", "perch", "pike",
    "pilchard", "plaice", "pollock", "salmon", "sardine", "smelt", "sprat", "tench", "trout",
]  # fmt: skip


def propose_name() -> str:
    """One of about 100,000 names. Never follows the run's seed: equal seeds are run more than once."""
    random = SystemRandom()
    return f"{random.choice(_ADJECTIVES)}-{random.choice(_FISH)}-{random.randrange(100):02d}"
