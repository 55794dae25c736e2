package rpccall

import (
	"net"
	"time"
)

// Accept passes the listener's connections to handle until stopping is closed, and then
// returns nil once the listener is closed too. It returns an error that is not temporary.
func Accept(lis net.Listener, stopping <-chan struct{}, handle func(net.Conn)) error {
	const (
		firstPause   = 5 * time.Millisecond
		longestPause = time.Second
	)
	pause := firstPause
	for {
		nc, err := lis.Accept()
		if err == nil {
			pause = firstPause
			handle(nc)
			continue
		}
		select {
		case <-stopping:
			return nil
		default:
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return err
		}
		// For instance, the process is out of file descriptors: wait until some are closed.
		select {
		case <-time.After(pause):
		case <-stopping:
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}
