package report

// charts are the pictures of the costs, those that there is something for.
func (r *Report) charts() []*picture {
	var all []*picture
	for _, p := range []*picture{r.acquires(), r.handOffs(), r.takeovers(), r.failovers(), r.holdsPerSecond(), r.waiterLoad()} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Pictures are the pictures of the report as SVG files that stand alone, by the names of the files: the matrix, the charts of the costs, and who held
// the lock when for each cell, by its [Cell.ID], of the run that shows its class. They follow the reader's choice of light or dark.
func (r *Report) Pictures() map[string][]byte {
	files := make(map[string][]byte)
	add := func(p *picture) { files[p.name+".svg"] = p.wide.standalone(p.title, p.desc) }
	for _, p := range r.charts() {
		add(p)
	}
	if p := r.matrixPicture(); p != nil {
		add(p)
		add(timelineLegend())
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.best() >= 0 {
			add(r.timelinePicture(c, c.best()))
		}
	}
	return files
}
