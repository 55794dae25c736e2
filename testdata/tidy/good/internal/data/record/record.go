// Package record contains a part of its own.
package record

import _ "wirelab.dev/internal/data/record/parquet"
