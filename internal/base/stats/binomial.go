package stats

import "gonum.org/v1/gonum/stat/distuv"

// BinomialP returns the two-sided P value of a number of successes in n independent trials
// with a chance of p each: the probability of that number or of one that is as unlikely on its
// side. The counts need not be whole numbers.
func BinomialP(n, did, p float64) float64 {
	switch {
	case p <= 0:
		if did > 0 {
			return 0
		}
		return 1
	case p >= 1:
		if did < n {
			return 0
		}
		return 1
	}
	chance := distuv.Binomial{N: n, P: p}
	return min(1, 2*min(chance.CDF(did), 1-chance.CDF(did-1)))
}
