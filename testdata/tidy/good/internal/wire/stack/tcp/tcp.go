// Package tcp knows the seam.
package tcp

import _ "wirelab.dev/internal/wire/stack"
