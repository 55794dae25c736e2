package record

// ServedPerSecond is the rate of ended calls in equal stretches of the window, at most
// so many, in order. Intervals that an edge of the window cuts are left out.
func (m *Measurement) ServedPerSecond(windowNS int64, most int) []float64 {
	var within []Interval
	for _, i := range m.Intervals {
		if i.StartNS >= 0 && i.StartNS+i.TookNS <= windowNS && i.TookNS > 0 {
			within = append(within, i)
		}
	}
	each := max(1, len(within)/most)
	var rates []float64
	for len(within) >= each {
		var stretch Interval
		for _, i := range within[:each] {
			stretch.TookNS += i.TookNS
			stretch.Requests += i.Requests
		}
		within = within[each:]
		if len(rates) < most {
			rates = append(rates, float64(stretch.Requests)/float64(stretch.TookNS)*1e9)
		}
	}
	return rates
}
