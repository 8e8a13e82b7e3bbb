package worlds

import (
	"context"

	"github.com/lockport/lockport/faults"
)

// etcdRemovalCells are what an operator can do to a claim. Each fault comes twice: behind the holder's back, and on a network that is well.
var etcdRemovalCells = []faults.Cell{
	{
		Fault: "lease-revoked-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(revokeLease),
		Why: "A lease that is revoked takes its keys with it at once; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "lease-revoked", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(revokeLease),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
	{
		Fault: "key-deleted-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(deleteKey),
		Why: "The next in line has the lock when the key is gone; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "key-deleted", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(deleteKey),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
}

func revokeLease(ctx context.Context, p *faults.Phase, name string) error {
	return etcdsOf(p).revokeLease(ctx, name)
}

func deleteKey(ctx context.Context, p *faults.Phase, name string) error {
	return etcdsOf(p).deleteKey(ctx, name)
}
