package format

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A Terminal describes the writer of a table or a view.
type Terminal struct {
	Width  int // in columns; 0 where it is no terminal
	Colour bool
}

// TerminalOf returns the writer's width and whether it takes colours.
func TerminalOf(w io.Writer) Terminal {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Terminal{}
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return Terminal{}
	}
	return Terminal{Width: width, Colour: os.Getenv("NO_COLOR") == ""}
}
