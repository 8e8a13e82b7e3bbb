package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

var fileCells = slices.Concat(
	Common(true, play.Cell{Fault: "holder-stopped", Outcome: report.Safe, Why: "a stopped process (SIGSTOP) keeps its lock as long as it exists"}),
	[]play.Cell{
		{Fault: "file-removed", Outcome: report.Fenced, Script: removedOpenly(Remove, true), Gone: true, Tries: 5,
			Why: "the next client creates and locks a new file; the holder checks for its file four times a second"},
		{Fault: "folder-replaced", Outcome: report.Fenced, Script: removedOpenly(replaceFolder, true), Gone: true, Tries: 5,
			Why: "as when all files are removed; tokens of new files start at the time of day, ahead of earlier ones"},
		{Fault: "folder-away", Outcome: report.Unavailable, Script: play.Storm(unavailable(FolderAway, 2, 0.1, 1)),
			Why: "holders learn that their files are gone; a missing file cannot be locked"},
	})

// replaceFolder replaces the folder of the locks by an empty one.
func replaceFolder(s *play.Phase) {
	FolderAway(s)
	play.Check(in[*environment.Folder](s).Heal(s.Ctx))
}

// FolderAway moves the folder away.
func FolderAway(s *play.Phase) (end func()) {
	back := play.Must(in[*environment.Folder](s).MoveAway())
	return func() { play.Check(back()) }
}
