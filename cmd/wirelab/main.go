// Command wirelab compares RPC wire protocols on the machine it runs on.
//
// This package is flags and wiring, one file a subcommand: it turns what a
// person typed into a scenario, hands it to the lab, and hands what came of it
// to the report.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
