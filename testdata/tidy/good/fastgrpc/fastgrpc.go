// Package fastgrpc is public and imports nothing of internal.
package fastgrpc

import _ "context"
