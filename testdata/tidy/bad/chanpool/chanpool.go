// Package chanpool is public, yet imports internal.
package chanpool

import _ "wirelab.dev/internal/clock"
