package load_test

import (
	_ "wirelab.dev/internal/load"
	_ "wirelab.dev/internal/wire/stack/fake"
)
