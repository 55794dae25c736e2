package load_test

import (
	_ "wirelab.dev/internal/run/load"
	_ "wirelab.dev/internal/wire/stack/fake"
)
