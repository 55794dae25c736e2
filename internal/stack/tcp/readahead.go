package tcp

// readAhead has a goroutine read what the server says, so that SendMsg learns
// that it has ended the stream. It returns what RecvMsg reads from instead. The
// goroutine ends with the stream, or with the client.
func (s *clientStream) readAhead() (next func() (event, error)) {
	readings := make(chan reading, streamWindow)
	go func() {
		for {
			var r reading
			r.said, r.err = s.conn.inbox.next()
			if r.isLast() {
				close(s.ended)
			}
			select {
			case readings <- r:
			case <-s.gone:
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
		case r := <-readings:
			return r.said, r.err
		case <-s.gone:
			return event{}, s.err
		case <-s.client.closed:
			return event{}, errClientClosed
		}
	}
}

// reading is what came of reading once.
type reading struct {
	said event
	err  error
}

func (r reading) isLast() bool { return r.err != nil || r.said.what == end }
