// Package stats holds the statistics that judge measurements. It takes and returns
// numbers; each function names its assumptions.
//
// Glossary. A trial is one start-to-stop measurement; its figure (a mean, a
// P99, a rate) is one value here, because requests within a trial are
// correlated and only trials repeat independently. A confidence interval covers
// the true figure in the stated share of repetitions of the whole experiment. A
// margin is the difference that the asker declares too small to matter.
//
// Which function answers which question:
//
//   - within a trial: [MSER5] finds where warm-up ends, [FindDrift] whether it did,
//     [Backlog.BeyondCapacity] whether a queue grows; [FindThreshold] the rate that
//     half of the tries pass;
//   - over the trials of a cell: [MeanInterval] bounds a mean, [Pool.Interval] a
//     percentile of all their requests, and [Pool.Stall] says that a minority of them
//     decides it;
//   - between two cells: [RatioInterval]; over a whole matrix of them
//     [CorrectFamily] applies [Holm] and gives the verdicts;
//   - along a curve: [FindKnee], and between two [FindCrossovers].
//
// Intervals of few trials were chosen by simulated coverage, 3,000 experiments
// a cell, of a nominal 95 %:
//
//	noise of a trial          trials  percentile  BCa  widened  Student t
//	normal                       3       75       72      75       95
//	normal                       5       83       83      92       95
//	normal                      10       90       90      94       95
//	log-normal, sigma 0.3        3       72       70      72       94
//	log-normal, sigma 0.3        5       82       82      91       94
//	log-normal, sigma 0.3       10       89       89      94       94
//	normal, 1 in 10 is 20 % up   5       57       57      70       76
//
// No bootstrap of the mean of three trials can leave their range, which misses
// the truth one time in four; so means and ratios use Student's t. The last row is
// why trials disturbed by other processes are flagged: no interval over a few
// trials is right with rare outliers.
//
// The package knows nothing of cells, records or stacks.
package stats
