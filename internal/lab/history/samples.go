package history

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Samples are measured durations. The zero value is empty. JSON has their quantiles, in milliseconds to a tenth. Not safe for concurrent use.
type Samples struct {
	all  []time.Duration
	read Quantiles // what a file said, of samples that are not known one by one
}

// Quantiles are how many samples there are, and the time that half of them, 99 in 100 and all of them do not exceed.
type Quantiles struct {
	N             int
	P50, P99, Max time.Duration
}

// Add adds a sample.
func (s *Samples) Add(d time.Duration) { s.all = append(s.all, d) }

// Merge adds the samples of another. What was read from a file is not added.
func (s *Samples) Merge(other Samples) { s.all = append(s.all, other.all...) }

// Quantiles computes them, or returns those that were read. Those of nothing are 0.
func (s *Samples) Quantiles() Quantiles {
	n := len(s.all)
	if n == 0 {
		return s.read
	}
	sorted := slices.Sorted(slices.Values(s.all))
	return Quantiles{N: n, P50: sorted[(n+1)/2-1], P99: sorted[(99*n+99)/100-1], Max: sorted[n-1]}
}

// IsZero says that there are no samples, which a file then leaves out.
func (s Samples) IsZero() bool { return s.Quantiles().N == 0 }

// quantilesInFile are milliseconds.
type quantilesInFile struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// MarshalJSON writes the quantiles.
func (s Samples) MarshalJSON() ([]byte, error) {
	q := s.Quantiles()
	ms := func(d time.Duration) float64 { return math.Round(float64(d)/1e5) / 10 }
	return json.Marshal(quantilesInFile{q.N, ms(q.P50), ms(q.P99), ms(q.Max)})
}

// UnmarshalJSON reads quantiles that were written.
func (s *Samples) UnmarshalJSON(text []byte) error {
	var f quantilesInFile
	err := json.Unmarshal(text, &f)
	of := func(ms float64) time.Duration { return time.Duration(math.Round(ms*10)) * time.Millisecond / 10 }
	*s = Samples{read: Quantiles{f.N, of(f.P50), of(f.P99), of(f.Max)}}
	return err
}
