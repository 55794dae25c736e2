package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"
)

// serveSlowly is a program for scripts: an HTTP server on $PORT that takes the time of its first argument for an answer,
// and ends after the number of answers in its second one.
func serveSlowly() {
	takes, err := time.ParseDuration(os.Args[1])
	most, answers := int64(-1), atomic.Int64{}
	if len(os.Args) > 2 {
		most, _ = strconv.ParseInt(os.Args[2], 10, 64)
	}
	if err == nil {
		fmt.Println("an answer takes", takes)
		err = http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { //nolint:gosec // for this script alone
			if answers.Add(1) == most+1 {
				os.Exit(0)
			}
			time.Sleep(takes)
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serveClustered is a program for scripts: it listens, writes its address, and leaves the work to two processes. Each
// answer takes a few milliseconds of CPU time.
func serveClustered() {
	if len(os.Args) > 1 {
		listener, err := net.FileListener(os.NewFile(3, "listener")) // the first of ExtraFiles
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
		work := make([]byte, 8<<20)
		panic(errors.Join(err, http.Serve(listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sha256.Sum256(work) })))) //nolint:gosec // for this script alone
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	file, err := listener.(*net.TCPListener).File()
	for range 2 {
		worker := exec.Command(os.Args[0], "worker")
		worker.ExtraFiles = []*os.File{file}
		_, unpiped := worker.StdinPipe() // the worker ends with this process
		if err = errors.Join(err, unpiped, worker.Start()); err != nil {
			panic(err)
		}
	}
	fmt.Println(listener.Addr())
	select {}
}
