// Package takeover turns what people have for other tools into arguments of wirelab load.
//
//	what stands after wirelab load ───── Habits ─┐
//	                                             ├─> scan ─> settle ─> arguments, told
//	a command line of another tool ─ Split ─ From┘   (the tool's table of flags)
//	a file that it wrote ─────────────────── From ─> its flags
//
// Each tool has a file with one table: its flags, what may follow each, and what it becomes
// here. The same tables read a pasted command (From), translate what fingers are used to
// typing (Habits), and make the page docs/load-from.md.
//
// What a flag means is decided by all that stands beside it: [Habits] reads the line by the
// table of each tool, and takes the tool whose table fits best; wirelab's own comes first.
// What is read in another sense than it was typed is told, one line each. What cannot be
// honoured is an error that says what to write.
//
// Text comes in, arguments go out. This package must not open a file, run a command or know
// how arguments are parsed.
package takeover
