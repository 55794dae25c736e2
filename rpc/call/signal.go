package rpccall

// WakeOne wakes the goroutine that waits on c, or the next that will. c has room for one.
func WakeOne(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// CloseOnce closes c unless it is closed. The caller holds the lock that guards c.
func CloseOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
