package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
)

// JSON writes the report as JSON, which [Read] reads.
func (r *Report) JSON(w io.Writer) error {
	out := *r
	out.Version = Version
	if path := endless(reflect.ValueOf(out), "report"); path != "" {
		return fmt.Errorf("%s is no finite number", path)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(out)
}

// endless names a figure that JSON has no way to write, so that whoever measured it is found.
func endless(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return path
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return endless(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if found := endless(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() || field.Tag.Get("json") == "-" {
				continue
			}
			if found := endless(v.Field(i), path+"."+field.Name); found != "" {
				return found
			}
		}
	}
	return ""
}

// overlapJSON is an Overlap whose tokens are strings, for which there is no tag on an array.
type overlapJSON struct {
	From   float64   `json:"from"`
	To     float64   `json:"to"`
	Older  string    `json:"older"`
	Newer  string    `json:"newer"`
	Tokens [2]string `json:"tokens"`
}

// MarshalJSON writes the tokens as strings.
func (o Overlap) MarshalJSON() ([]byte, error) {
	tokens := [2]string{strconv.FormatUint(o.Tokens[0], 10), strconv.FormatUint(o.Tokens[1], 10)}
	return json.Marshal(overlapJSON{o.From, o.To, o.Older, o.Newer, tokens})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Overlap) UnmarshalJSON(text []byte) error {
	var in overlapJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*o = Overlap{From: in.From, To: in.To, Older: in.Older, Newer: in.Newer}
	for i, token := range in.Tokens {
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return fmt.Errorf("the token of an overlap: %w", err)
		}
		o.Tokens[i] = n
	}
	return nil
}

// Read reads a report that [Report.JSON] wrote. One of another version is an error, as its fields may mean something else.
func Read(in io.Reader) (*Report, error) {
	var r Report
	d := json.NewDecoder(in)
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("this is not the JSON of a report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("this report is of version %d, and this lockport reads version %d alone: make it anew, or use the lockport that made it",
			r.Version, Version)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON of the report")
	}
	return &r, nil
}
