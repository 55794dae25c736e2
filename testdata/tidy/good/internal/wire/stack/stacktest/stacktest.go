// Package stacktest knows the seam and its own generated part.
package stacktest

import (
	_ "wirelab.dev/internal/wire/stack"
	_ "wirelab.dev/internal/wire/stack/stacktest/testpb"
)
