package main

import (
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/show/report/table"
)

// A columnsFlag holds the value of --columns: the figures of the table instead of the usual ones.
type columnsFlag []string

func (c *columnsFlag) register(cmd *cobra.Command) {
	names := append(table.ColumnNames(), table.AllColumns)
	cmd.Flags().Var(c, "columns", "`figures` of the table instead of the usual ones, as in mean,P99.9,max; all for every one")
	complete(cmd, "columns", names)
}

// Set reads the flag. pflag puts the flag's name and the value before its error.
func (c *columnsFlag) Set(text string) (err error) {
	*c, err = table.FindColumns(strings.Split(text, ","))
	return err
}

// String returns the value as Set reads it.
func (c *columnsFlag) String() string { return strings.Join(*c, ",") }

// Type returns pflag's name for the value; the help shows the one in backquotes.
func (c *columnsFlag) Type() string { return "list" }
