package tcp

import (
	_ "wirelab.dev/internal/wire/stack/stacktest"
	_ "wirelab.dev/internal/wire/workload/echo/echopb"
)
