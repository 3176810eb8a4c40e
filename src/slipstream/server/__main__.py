"""`python -m slipstream.server` is `slipstream-server`."""

import sys

from slipstream.server.main import main

sys.exit(main())
