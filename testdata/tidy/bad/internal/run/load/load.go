// Package load imports a house beside its own, and siblings below, which is allowed.
package load

import (
	_ "wirelab.dev/internal/show/report"
	_ "wirelab.dev/internal/wire/stack"
	_ "wirelab.dev/internal/wire/stack/fake"
)
