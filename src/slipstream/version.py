"""The two versions this program has.

`SERVER_VERSION` is the nats-server feature level that clients see in INFO and switch features on by.
`PRODUCT_VERSION` is the release of this package.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `import slipstream` loads this module, and would take most of its time for `typing`
if TYPE_CHECKING:
    from typing import Final

__all__ = ["API_LEVEL", "PRODUCT_VERSION", "SERVER_VERSION"]

SERVER_VERSION: Final = "2.14.5"
API_LEVEL: Final = 4  # of JetStream, belongs to the version
PRODUCT_VERSION: Final = "0.1.0"
