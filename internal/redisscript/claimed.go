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

// Claimed converts the reply.
func (r Reply) Claimed() (c Claimed, err error) {
	if r.Err != nil {
		return c, r.Err
	}
	if token, easy := r.Value.(int64); easy {
		return Claimed{Status: Granted, Number: token}, nil
	}
	list, _ := r.Value.([]any)
	c = Claimed{Status: number(list, 0), Number: number(list, 1), Flag: number(list, 2) > 0}
	if len(list) > 3 {
		c.Value, _ = list[3].(string)
	}
	if len(list) == 0 || c.Status == Held && len(list) != 4 || c.Status == Granted && len(list) != 3 {
		return c, r.Unexpected()
	}
	return c, nil
}

// Unexpected is the error for a reply that the script cannot give.
func (r Reply) Unexpected() error {
	return fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
}

// number is element i of a script's reply, or 0 if that is not a number.
func number(list []any, i int) (n int64) {
	if i < len(list) {
		n, _ = list[i].(int64)
	}
	return n
}
