// Package catalog knows every stack.
package catalog

import (
	_ "wirelab.dev/internal/wire/stack"
	_ "wirelab.dev/internal/wire/stack/fake"
	_ "wirelab.dev/internal/wire/stack/tcp"
)
