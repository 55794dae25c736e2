// Package fake knows the seam.
package fake

import _ "wirelab.dev/internal/wire/stack"
