// Package flags turns command lines of other load generators into arguments of wirelab load.
//
//	arguments typed behind wirelab load ─── Typed ─┐
//	                                               ├─> scan ─> Settle ─> arguments, notes
//	a command line of another tool ─ Split ─ From ─┘   (the tool's table of flags)
//	a file that it wrote or reads ─ ReadFile ─ From
//
// A [Tool] is one table: its flags, the values that may follow them, and what each becomes here.
// The same tables read a pasted command ([Tools.From]), translate a typed line ([Tools.Typed]),
// and make the page docs/load-from.md. Each tool's table is in a package of its own.
//
// One letter means different things in different tools. So [Tools.Typed] parses the whole line
// with the table of each tool, and takes the tool whose table fits best; wirelab's own comes
// first. A note names each flag that is read in another sense than it was typed. A flag that
// cannot be honoured is an error. The error says what to write instead.
//
// Text comes in, arguments go out. This package must not open a file, run a command, name a tool
// but wirelab, or know how arguments are parsed.
package flags
