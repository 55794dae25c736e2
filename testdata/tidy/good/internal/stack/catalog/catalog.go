// Package catalog knows every stack.
package catalog

import (
	_ "wirelab.dev/internal/stack"
	_ "wirelab.dev/internal/stack/fake"
	_ "wirelab.dev/internal/stack/tcp"
)
