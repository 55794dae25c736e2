package tcp

import (
	_ "wirelab.dev/internal/stack/stacktest"
	_ "wirelab.dev/internal/workload/echo/echopb"
)
