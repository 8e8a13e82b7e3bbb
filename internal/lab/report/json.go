package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Token is a fencing token, 0 for none. JSON has it as a string of digits: many JSON readers know integers only up to 2^53.
type Token uint64

// MarshalText implements [encoding.TextMarshaler].
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Token) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	*t = Token(n)
	return err
}

// JSON writes the report for [Read]. A figure that is not finite is an error.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Read reads a report written by [Report.JSON]. Another version is an error, because its fields may have other meanings.
func Read(in io.Reader) (*Report, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("not the JSON of a report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("the report has version %d, but this lockport reads only version %d: make a new report, or use the lockport that made this one", r.Version, Version)
	}
	return &r, nil
}
