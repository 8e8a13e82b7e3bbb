package redisscript

import (
	"fmt"

	"github.com/lockport/lockport/driver"
)

// The values of Claimed.Status, as in claim.lua.
const (
	Held         = 0
	Granted      = 1
	Abandoned    = 2
	OtherPermits = 3 // the name has a different number of permits
)

// Claimed is the reply of a script that claims.
type Claimed struct {
	Status int64
	Number int64  // Granted: the token; Held: ms until it may be free, or -1; OtherPermits: their number
	Flag   bool   // Granted: others wait; Held: the holder is foreign
	Value  string // Held: the lock's value; "" if it is not a string, or if another claim is next
}

// lengths are those of a reply of each status.
var lengths = [...]int{Held: 4, Granted: 3, Abandoned: 1, OtherPermits: 2}

// Claimed converts the reply. It takes no malformed reply for an outcome: the claim may have been granted.
func (r Reply) Claimed() (c Claimed, err error) {
	if r.Err != nil {
		return c, r.Err
	}
	list, _ := r.Value.([]any)
	if token, easy := r.Value.(int64); easy {
		list = []any{int64(Granted), token, int64(0)}
	}
	var n [3]int64
	if !numbers(n[:min(len(list), len(n))], list) || n[0] < 0 || n[0] >= int64(len(lengths)) || len(list) != lengths[n[0]] {
		return c, r.Unexpected()
	}
	c = Claimed{Status: n[0], Number: n[1], Flag: n[2] > 0}
	if c.Status == Held {
		c.Value, _ = list[3].(string)
	}
	return c, nil
}

// Unexpected is the error for a reply that the script cannot give.
func (r Reply) Unexpected() error {
	return fmt.Errorf("%w: the script replied %.100q", driver.ErrUnknown, fmt.Sprint(r.Value))
}

// numbers sets n to the first elements of a script's reply. false: one of them is not a number.
func numbers(n []int64, list []any) (ok bool) {
	for i := range n {
		if n[i], ok = list[i].(int64); !ok {
			return false
		}
	}
	return true
}
