package claim

import "math"

// A Spread says how much of the differences in a table comes from its rows, from its columns, and
// from single cells. The three are shares of the whole and add up to 1.
//
// It is the two-way layout of the logarithms, with one value per cell. What rows and columns do not
// explain is special to a cell, or chance. The interval over repeats shows the part of chance.
type Spread struct {
	Rows    float64 `expr:"rows"`
	Columns float64 `expr:"columns"`
	Neither float64 `expr:"neither"`
}

// spread takes a figure of variants in rows of equal length.
func (s *scope) spread(figure func(variant string) float64, rows []any) *Spread {
	none := &Spread{math.NaN(), math.NaN(), math.NaN()}
	table := make([][]float64, len(rows))
	for i, row := range rows {
		variants, _ := row.([]any)
		for _, variant := range variants {
			name, isName := variant.(string)
			if !isName {
				s.none("spread: %v is no variant", variant)
				return none
			}
			table[i] = append(table[i], math.Log(figure(name)))
		}
		if len(table[i]) < 2 || len(rows) < 2 || len(table[i]) != len(table[0]) {
			s.none("spread: want at least two rows of as many variants, two or more")
			return none
		}
	}
	return twoWay(table)
}

// twoWay divides the sum of the squares of a table's differences from its mean.
func twoWay(table [][]float64) *Spread {
	rows, columns := float64(len(table)), float64(len(table[0]))
	ofRow, ofColumn, mean := make([]float64, len(table)), make([]float64, len(table[0])), 0.0
	for i, row := range table {
		for j, value := range row {
			ofRow[i] += value / columns
			ofColumn[j] += value / rows
			mean += value / rows / columns
		}
	}
	var byRow, byColumn, whole float64
	for i, row := range table {
		byRow += columns * square(ofRow[i]-mean)
		for _, value := range row {
			whole += square(value - mean)
		}
	}
	for j := range ofColumn {
		byColumn += rows * square(ofColumn[j]-mean)
	}
	return &Spread{byRow / whole, byColumn / whole, max(0, 1-(byRow+byColumn)/whole)}
}

func square(x float64) float64 { return x * x }
