package link

// choose returns the engine for the settings, of those that the kernel has.
//
// The kernel's engines are closer to a real network's timing, and cost the trial no CPU time. They
// are used if they do exactly what was asked for: tbf for a rate alone, netem for a delay alone.
// netem's losses follow no seed before Linux 6.6, its jitter changes the order, its queue counts
// packets, and it does not separate losses from drops of a full queue.
func (s Settings) choose(has func(Engine) bool) Engine {
	var rates, delays, others bool
	for _, p := range []Path{s.Up, s.Down} {
		rates = rates || p.Rate != 0
		delays = delays || p.Delay != 0
		p.Rate, p.Delay = 0, 0
		others = others || p.acts()
	}
	switch {
	case !rates && !delays && !others && !s.Emulated:
		return Direct
	case rates && !delays && !others && has(TBF):
		return TBF
	case delays && !rates && !others && has(Netem):
		return Netem
	}
	return Frames
}
