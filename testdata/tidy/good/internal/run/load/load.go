// Package load imports a lower level.
package load

import _ "wirelab.dev/internal/base/clock"
