package conformance

import "encoding/xml"

// JUnit returns reports as JUnit XML for CI systems: one suite for each report, named after its backend.
func JUnit(reports ...Report) []byte {
	type message struct {
		Message string `xml:"message,attr"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Time    float64  `xml:"time,attr"` // seconds
		Failure *message `xml:"failure,omitempty"`
		Skipped *message `xml:"skipped,omitempty"`
	}
	type suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Time     float64    `xml:"time,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	var all struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	for _, r := range reports {
		s := suite{Name: r.Backend, Tests: len(r.Results), Failures: r.Failed, Skipped: r.NotRun, Time: r.Took.Seconds()}
		for _, res := range r.Results {
			c := testcase{Name: res.Name, Class: r.Backend + "/" + res.Group, Time: res.Took.Seconds()}
			switch res.Outcome {
			case Fail:
				c.Failure = &message{res.Message()}
			case NotRun:
				c.Skipped = &message{res.Reason}
			}
			s.Cases = append(s.Cases, c)
		}
		all.Suites = append(all.Suites, s)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		panic(err) // unreachable: only strings and numbers
	}
	return append([]byte(xml.Header), append(data, '\n')...)
}
