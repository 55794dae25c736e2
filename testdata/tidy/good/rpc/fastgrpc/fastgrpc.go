// Package fastgrpc is public and imports of internal what it may.
package fastgrpc

import _ "wirelab.dev/rpc/batchio"
