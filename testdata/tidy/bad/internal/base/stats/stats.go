// Package stats imports a higher level.
package stats

import _ "wirelab.dev/internal/data/record"
