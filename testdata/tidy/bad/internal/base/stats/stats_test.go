package stats

import _ "wirelab.dev/internal/run/load"
