package stats

import (
	"math"
	"testing"
)

func TestStudentQuantileIsTheLibrarys(t *testing.T) {
	for _, freedom := range []float64{0.5, 1, 2, 2.7, 4, 10, 33.3, 1000, 1e6} {
		s := NewStudent(freedom)
		for _, tail := range []float64{1e-9, 1e-6, 1e-4, 0.001, 0.025, 0.1, 0.2, 0.249, 0.25, 0.4, 0.5} {
			for _, p := range []float64{tail, 1 - tail} {
				got, want := s.Quantile(p), s.StudentsT.Quantile(p)
				// At a million its search ends 258 standard deviations out.
				if freedom < 1e6 && !(math.Abs(got-want) <= 1e-8*math.Abs(want)) {
					t.Errorf("quantile %v with %v degrees of freedom: %v, want %v", p, freedom, got, want)
				}
				if back := s.CDF(got); !(math.Abs(back-p) <= 1e-9*tail+1e-15) {
					t.Errorf("quantile %v with %v degrees of freedom has %v below it", p, freedom, back)
				}
			}
		}
	}
	if s := NewStudent(3); !math.IsInf(s.Quantile(0), -1) || !math.IsInf(s.Quantile(1), 1) {
		t.Error("its ends are not infinite")
	}
}

func BenchmarkStudentQuantile(b *testing.B) {
	for b.Loop() {
		for freedom := 2.0; freedom < 40; freedom += 4.4 {
			NewStudent(freedom).Quantile(0.975)
		}
	}
}
