// Command wirelab imports a package that has no room.
package main

import _ "wirelab.dev/internal/attic"
