// Package report looks past the record.
package report

import _ "wirelab.dev/internal/run/lab"
