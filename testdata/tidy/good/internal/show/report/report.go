// Package report reads the record and what was judged of it.
package report

import (
	_ "wirelab.dev/internal/judge/advice"
	_ "wirelab.dev/internal/data/record"
)
