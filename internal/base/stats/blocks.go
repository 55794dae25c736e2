package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// An Observation is the logarithm of one variant's figure in one block.
type Observation struct {
	Variant, Block int
	Log            float64
}

// A BlockFit estimates the means of several variants that were measured in blocks. It assumes
//
//	log = mean of the variant + effect of the block + error
//
// with random block effects. A block that lacks some variants still counts: its trials say less,
// because their block's effect is not known. If no block lacks a variant, the difference of two
// means is the mean of the paired differences. If no block has two variants, it is the difference of
// two independent means.
//
// The standard errors come from the blocks' residuals, corrected for small samples (Bell and
// McCaffrey 2002). So they hold if variants scatter unequally, or if the assumed spread of the
// blocks is wrong. They equal the paired and Welch's standard errors in the two extreme cases.
type BlockFit struct {
	Means []float64 // by variant

	inverse *mat.SymDense // covariance of the means, in units of the error's variance
	kinds   []blockKind
}

// A blockKind holds all blocks with the same variants.
type blockKind struct {
	variants  []int
	adjusted  *mat.Dense  // turns a contrast into the weights of a block's residuals
	projected *mat.Dense  // adjusted, seen from the means
	residuals [][]float64 // by block; decorrelated
}

// A Contrast is a weighted sum of means. Unit is its variance in units of the error's variance.
type Contrast struct {
	LogRatio
	Unit float64
}

// FitBlocks fits the means of the variants. Each variant needs an observation. spread is the variance
// of the block effects divided by the variance of the errors.
func FitBlocks(variants int, all []Observation, spread float64) *BlockFit {
	blocks := map[int][]Observation{}
	for _, o := range all {
		blocks[o.Block] = append(blocks[o.Block], o)
	}
	information, weighted := mat.NewSymDense(variants, nil), mat.NewVecDense(variants, nil)
	byKind := map[string]*blockKind{}
	var order []*blockKind
	for _, o := range all { // in the order of their first observations
		block := blocks[o.Block]
		if block == nil {
			continue
		}
		delete(blocks, o.Block)
		slices.SortFunc(block, func(a, b Observation) int { return a.Variant - b.Variant })
		present, logs, sum := make([]int, len(block)), make([]float64, len(block)), 0.0
		for i, o := range block {
			present[i], logs[i] = o.Variant, o.Log
			sum += o.Log
		}
		size := float64(len(block))
		for i, v := range present {
			for j, w := range present[i:] {
				value := -spread / (1 + size*spread)
				if j == 0 {
					value++
				}
				information.SetSym(v, w, information.At(v, w)+value)
			}
			weighted.SetVec(v, weighted.AtVec(v)+logs[i]-sum*spread/(1+size*spread))
		}
		key := keyOfVariants(present)
		if byKind[key] == nil {
			byKind[key] = &blockKind{variants: present}
			order = append(order, byKind[key])
		}
		byKind[key].residuals = append(byKind[key].residuals, logs)
	}
	f := &BlockFit{inverse: mat.NewSymDense(variants, nil)}
	var cholesky mat.Cholesky
	var means mat.VecDense
	if !cholesky.Factorize(information) || cholesky.InverseTo(f.inverse) != nil {
		panic("stats: a variant of a fit has no observation")
	}
	means.MulVec(f.inverse, weighted)
	f.Means = means.RawVector().Data
	for _, kind := range order {
		kind.finish(f, spread)
		f.kinds = append(f.kinds, *kind)
	}
	return f
}

func keyOfVariants(present []int) string {
	key := make([]rune, len(present))
	for i, v := range present {
		key[i] = rune(v)
	}
	return string(key)
}

// finish turns the blocks' logarithms into decorrelated residuals, and computes the correction for
// the leverage of a block.
func (k *blockKind) finish(f *BlockFit, spread float64) {
	size, variants := len(k.variants), len(f.Means)
	// The square root of the inverse covariance within a block is 1 − shrink·mean.
	shrink := 1 - 1/math.Sqrt(1+float64(size)*spread)
	for _, block := range k.residuals {
		for i, v := range k.variants {
			block[i] -= f.Means[v]
		}
		mean := shrink * stat.Mean(block, nil)
		for i := range block {
			block[i] -= mean
		}
	}
	design := mat.NewDense(size, variants, nil)
	for i := range size {
		for j, v := range k.variants {
			value := -shrink / float64(size)
			if i == j {
				value++
			}
			design.Set(i, v, value)
		}
	}
	var half, leverage mat.Dense
	half.Mul(design, f.inverse)
	leverage.Mul(&half, design.T())
	left := mat.NewSymDense(size, nil)
	for i := range size {
		for j := range size {
			if i <= j {
				value := -leverage.At(i, j)
				if i == j {
					value++
				}
				left.SetSym(i, j, value)
			}
		}
	}
	k.adjusted, k.projected = &mat.Dense{}, &mat.Dense{}
	k.adjusted.Mul(inverseRoot(left), &half)
	k.projected.Mul(design.T(), k.adjusted)
}

// inverseRoot returns the inverse square root of a symmetric matrix, without the directions in which
// it is zero.
func inverseRoot(of *mat.SymDense) *mat.Dense {
	const zero = 1e-9
	var eigen mat.EigenSym
	if !eigen.Factorize(of, true) {
		panic("stats: a symmetric matrix has no eigenvalues")
	}
	var vectors, scaled, root mat.Dense
	eigen.VectorsTo(&vectors)
	scaled.CloneFrom(&vectors)
	for i, value := range eigen.Values(nil) {
		factor := 0.0
		if value > zero {
			factor = 1 / math.Sqrt(value)
		}
		for row := range of.SymmetricDim() {
			scaled.Set(row, i, factor*vectors.At(row, i))
		}
	}
	root.Mul(&scaled, vectors.T())
	return &root
}

// Contrast estimates the weighted sum of the variants' means.
func (f *BlockFit) Contrast(weights []float64) Contrast {
	of := mat.NewVecDense(len(weights), weights)
	c := Contrast{LogRatio: LogRatio{Mean: mat.Dot(of, mat.NewVecDense(len(f.Means), f.Means))}, Unit: mat.Inner(of, f.inverse, of)}
	// The blocks of one kind share a part of the contrast's variance. expected is this part in units of
	// the error's variance if all variants scatter alike.
	type part struct{ variance, expected, freedom float64 }
	var parts []part
	variance, expected := 0.0, 0.0
	for _, k := range f.kinds {
		var own, seen mat.VecDense
		own.MulVec(k.adjusted, of)
		seen.MulVec(k.projected, of)
		blocks, length, fitted := float64(len(k.residuals)), mat.Dot(&own, &own), mat.Inner(&seen, f.inverse, &seen)
		p := part{expected: blocks * (length - fitted)}
		p.freedom = p.expected * p.expected / (blocks*length*(length-2*fitted) + blocks*blocks*fitted*fitted)
		for _, residuals := range k.residuals {
			u := mat.Dot(&own, mat.NewVecDense(len(residuals), residuals))
			p.variance += u * u
		}
		if p.freedom > 0 { // else the kind tells nothing of the contrast
			parts = append(parts, p)
		}
		variance, expected = variance+p.variance, expected+p.expected
	}
	sum, squares := 0.0, 0.0
	for _, p := range parts { // Satterthwaite's formula, between seen and expected variances
		weight := p.variance/max(variance, math.SmallestNonzeroFloat64) + p.expected/expected
		sum, squares = sum+weight, squares+weight*weight/p.freedom
	}
	c.StandardError, c.Freedom = math.Sqrt(variance), sum*sum/squares
	return c
}

// Difference estimates the mean of variant a minus the mean of variant b.
func (f *BlockFit) Difference(a, b int) Contrast {
	weights := make([]float64, len(f.Means))
	weights[a]++
	weights[b]--
	return f.Contrast(weights)
}

// maxSpread bounds the spread of blocks. Beyond it, a trial without a partner counts for nothing.
const maxSpread = 1000

// BlockSpread estimates the variance of the block effects divided by the variance of the errors. It
// compares how much a variant's trials scatter with how much its differences from other variants
// scatter. It returns NaN if no two variants share three blocks.
func BlockSpread(variants int, all []Observation) float64 {
	byVariant := make([]map[int]float64, variants)
	for v := range byVariant {
		byVariant[v] = map[int]float64{}
	}
	var blocks []int
	for _, o := range all {
		byVariant[o.Variant][o.Block] = o.Log
		blocks = append(blocks, o.Block)
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	total, within, freedom := 0.0, 0.0, 0.0
	for v, a := range byVariant {
		for _, b := range byVariant[v+1:] {
			var ofA, ofB, differences []float64
			for _, block := range blocks {
				logA, hasA := a[block]
				if logB, hasB := b[block]; hasA && hasB {
					ofA, ofB, differences = append(ofA, logA), append(ofB, logB), append(differences, logA-logB)
				}
			}
			if n := float64(len(differences)); n >= leastTrials {
				freedom += n - 1
				within += (n - 1) * stat.Variance(differences, nil) / 2
				total += (n - 1) * (stat.Variance(ofA, nil) + stat.Variance(ofB, nil)) / 2
			}
		}
	}
	switch {
	case freedom == 0:
		return math.NaN()
	case total <= within:
		return 0
	}
	return min(maxSpread, total/within-1)
}
