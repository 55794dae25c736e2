// Package stacktest knows the seam and its own generated part.
package stacktest

import (
	_ "wirelab.dev/internal/stack"
	_ "wirelab.dev/internal/stack/stacktest/testpb"
)
