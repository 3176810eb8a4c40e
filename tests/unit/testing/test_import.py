"""What `import slipstream` loads: nothing that takes time, whatever it offers."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import slipstream; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert set(done.stdout.split()) <= {"slipstream", "slipstream.version", "__future__"}


def test_connecting_loads_no_server() -> None:
    code = "import sys, slipstream; slipstream.connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    loaded = set(done.stdout.split())
    assert "slipstream.sync.client" in loaded
    assert not loaded & {"slipstream.server", "slipstream.jetstream", "slipstream.config", "asyncio", "click", "nats"}
