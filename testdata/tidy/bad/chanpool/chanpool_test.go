package chanpool_test

import _ "wirelab.dev/internal/stats"
