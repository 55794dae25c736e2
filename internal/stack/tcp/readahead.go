package tcp

// readAhead starts a goroutine that reads the server's events, so that SendMsg
// notices when the server ends the stream. It returns the function that RecvMsg
// reads from instead. The goroutine ends with the stream or the client.
func (s *clientStream) readAhead() (next func() (event, error)) {
	results := make(chan readResult, streamWindow)
	go func() {
		for {
			var r readResult
			r.event, r.err = s.conn.reader.next()
			if r.isLast() {
				close(s.ended)
			}
			select {
			case results <- r:
			case <-s.detached:
				return
			case <-s.client.closed:
				return
			}
			if r.isLast() {
				return
			}
		}
	}()
	return func() (event, error) {
		select {
		case r := <-results:
			return r.event, r.err
		case <-s.detached:
			return event{}, s.err
		case <-s.client.closed:
			return event{}, errClientClosed
		}
	}
}

// readResult is what one read returned.
type readResult struct {
	event event
	err   error
}

func (r readResult) isLast() bool { return r.err != nil || r.event.kind == end }
