package worker

// Shift moves all instants of a result, as from the clock of another machine to this one's.
func (r *Result) Shift(by int64) {
	for i := range r.Watched {
		r.Watched[i].Shift(by)
	}
	if m := r.Machine; m != nil {
		for i := range m.Watched {
			m.Watched[i].Shift(by)
		}
	}
	if s := r.Server; s != nil {
		if s.Usage != nil {
			s.Usage.Shift(by)
		}
		s.Handled.shift(by)
	}
	if c := r.Client; c != nil {
		c.BeginNS += by
		c.EndNS += by
		if c.Usage != nil {
			c.Usage.AtNS += by
		}
		c.Calls.shift(by)
	}
}
