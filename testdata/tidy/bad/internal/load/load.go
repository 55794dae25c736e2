// Package load imports its neighbours.
package load

import (
	_ "wirelab.dev/internal/stack"
	_ "wirelab.dev/internal/stack/fake"
)
