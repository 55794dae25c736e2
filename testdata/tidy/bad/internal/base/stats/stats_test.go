package stats

import _ "wirelab.dev/internal/load"
