// Package web holds the report page: TypeScript in src, and in dist what
// tools/generate makes of it, which is committed so that the program builds
// with Go alone.
//
// The page is one file that opens without a server. Package report puts the
// program, the style and the figures of a run into it; this package only
// carries the first two, and knows nothing of runs.
package web

import _ "embed" // for the built files

//go:generate go -C ../tools run ./generate

// Program is the page's script, for a classic script element: it needs no
// module loader, and contains no "</script".
//
//go:embed dist/app.js
var Program string

// Style is the page's style sheet.
//
//go:embed dist/app.css
var Style string
