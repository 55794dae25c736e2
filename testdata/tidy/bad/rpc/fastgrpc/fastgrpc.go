// Package fastgrpc is public, yet imports internal.
package fastgrpc

import _ "wirelab.dev/internal/base/clock"
