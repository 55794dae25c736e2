//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// powerless fails.
func powerless(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("it takes Linux") }
