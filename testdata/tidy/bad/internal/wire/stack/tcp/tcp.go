// Package tcp imports its sibling.
package tcp

import _ "wirelab.dev/internal/wire/stack/fake"
