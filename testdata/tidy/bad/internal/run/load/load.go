// Package load imports its neighbours.
package load

import (
	_ "wirelab.dev/internal/wire/stack"
	_ "wirelab.dev/internal/wire/stack/fake"
)
