package hazards

import (
	_ "embed"
	"encoding/json"

	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed hazards.json
var texts []byte

// Hazards are the fifteen ways in which a distributed lock goes wrong, in the order of their numbers, explained to people who have not read about them. The
// caller owns the result.
func Hazards() (all []report.Hazard) {
	if err := json.Unmarshal(texts, &all); err != nil {
		panic(err) // it is embedded
	}
	return all
}
