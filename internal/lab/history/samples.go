package history

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Samples are measured durations. The zero value is empty. JSON has only their quantiles, in milliseconds to a tenth. Not safe for concurrent use.
type Samples struct {
	all  []time.Duration
	read Quantiles // read from a file, without the samples
}

// Quantiles are the number of samples, and the times that 50 %, 99 % and all of them do not exceed.
type Quantiles struct {
	N             int
	P50, P99, Max time.Duration
}

// Add adds a sample.
func (s *Samples) Add(d time.Duration) { s.all = append(s.all, d) }

// Merge adds the samples of another. It ignores quantiles read from a file.
func (s *Samples) Merge(other Samples) { s.all = append(s.all, other.all...) }

// Quantiles computes the quantiles, or returns those read from a file. Without samples they are 0.
func (s *Samples) Quantiles() Quantiles {
	n := len(s.all)
	if n == 0 {
		return s.read
	}
	sorted := slices.Sorted(slices.Values(s.all))
	return Quantiles{N: n, P50: sorted[(n+1)/2-1], P99: sorted[(99*n+99)/100-1], Max: sorted[n-1]}
}

// IsZero says that there are no samples. JSON then omits the field.
func (s Samples) IsZero() bool { return s.Quantiles().N == 0 }

// quantilesInFile are in milliseconds.
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

// UnmarshalJSON reads the quantiles.
func (s *Samples) UnmarshalJSON(text []byte) error {
	var f quantilesInFile
	err := json.Unmarshal(text, &f)
	of := func(ms float64) time.Duration { return time.Duration(math.Round(ms*10)) * time.Millisecond / 10 }
	*s = Samples{read: Quantiles{f.N, of(f.P50), of(f.P99), of(f.Max)}}
	return err
}
