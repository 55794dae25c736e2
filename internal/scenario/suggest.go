package scenario

import "strings"

// Suggest ends an error about a word that is not among those there are: with
// the one that was meant, as far as that can be told, and else with all.
func Suggest(word string, among []string) string {
	for slips := 1; slips <= 2; slips++ {
		for _, candidate := range among {
			// Two slips in three letters leave too little to go by.
			if slips <= (len(candidate)+1)/3 && distance(word, candidate) == slips {
				return "did you mean " + candidate + "?"
			}
		}
	}
	return "want one of " + strings.Join(among, ", ")
}

// distance is the least number of letters to insert, leave out, replace or
// swap with their neighbour, that turns a into b.
func distance(a, b string) int {
	// rows[i][j] is the distance of the first i letters of a from the first j of b.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range a {
		for j := range b {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			rows[i+1][j+1] = min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
