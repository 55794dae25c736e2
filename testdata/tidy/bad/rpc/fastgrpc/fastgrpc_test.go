package fastgrpc_test

import _ "wirelab.dev/internal/base/stats"
