package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

// serveSlowly is a program for scripts: an HTTP server on $PORT that takes the time of its argument for an answer.
func serveSlowly() {
	takes, err := time.ParseDuration(os.Args[1])
	if err == nil {
		fmt.Println("an answer takes", takes)
		err = http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) })) //nolint:gosec // for this script alone
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
