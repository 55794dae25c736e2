// Package common holds nobody knows what.
package common

import _ "wirelab.dev/internal/base/clock"
