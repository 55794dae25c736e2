// Command wirelab imports everything below it.
package main

import (
	_ "wirelab.dev/internal/show/report"
	_ "wirelab.dev/internal/wire/stack/catalog"
)
