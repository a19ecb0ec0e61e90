"""What `import shoal` gives: every name is there to be found, and none costs anything before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import shoal

CODE = """
import json, sys
import shoal
print(json.dumps({"names": dir(shoal), "modules": list(sys.modules)}))
"""


def test_dir_shows_every_name_and_imports_none() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert {*shoal.__all__, "__version__"} <= set(found["names"])
    assert not [name for name in found["modules"] if name.startswith(("shoal.", "torch", "numpy", "pydantic"))]


def test_every_name_is_what_it_says() -> None:
    for name in shoal.__all__:
        assert getattr(shoal, name).__name__ == name
    assert not hasattr(shoal, "trian")
