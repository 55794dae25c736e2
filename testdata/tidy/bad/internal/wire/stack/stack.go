// Package stack is a seam that knows an implementation.
package stack

import _ "wirelab.dev/internal/wire/stack/fake"
