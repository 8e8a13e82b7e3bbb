package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Token is a fencing token, 0 for none. In JSON it is a string of digits: many readers of JSON know whole numbers only up to 2^53.
type Token uint64

// MarshalText implements [encoding.TextMarshaler].
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Token) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	*t = Token(n)
	return err
}

// JSON writes the report as JSON, which [Read] reads. A figure that is not a finite number is an error.
func (r *Report) JSON(w io.Writer) error {
	out := *r
	out.Version = Version
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(out)
}

// Read reads a report that [Report.JSON] wrote. A report of another version is an error, because its fields may mean something else.
func Read(in io.Reader) (*Report, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("this is not the JSON of a report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("this report has version %d, and this lockport reads version %d only: make it anew, or use the lockport that made it", r.Version, Version)
	}
	return &r, nil
}
