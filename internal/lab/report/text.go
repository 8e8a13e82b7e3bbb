package report

import (
	"math"
	"strings"
	"unicode"
)

// regular and bold are the widths of the characters from ' ' to '~' in thousandths of the size. They are those of DejaVu Sans, the widest of the
// fonts that a system is likely to show a picture in: what fits there fits in all.
var (
	regular = [95]int16{
		318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
		1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
		500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
	}
	bold = [95]int16{
		348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580,
		1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500,
		500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
	}
)

// How far a line of text reaches above and below its baseline, and how far apart two lines are, in sizes of it.
const (
	ascent  = 0.93
	descent = 0.25
	leading = 1.25
)

// font is how large a text is, and whether it is bold.
type font struct {
	size float64
	bold bool
}

// width is how wide text is at most.
func (f font) width(text string) float64 {
	widths, sum := &regular, 0
	if f.bold {
		widths = &bold
	}
	for _, r := range text {
		switch {
		case r >= ' ' && r <= '~':
			sum += int(widths[r-' '])
		case r == '·':
			sum += 380
		case r == '–' || r == '“' || r == '”' || r == '’':
			sum += 660
		case r == '×' || r == 'µ' || r == '≥':
			sum += 840
		case unicode.Is(unicode.Mn, r):
		default:
			sum += 1250
		}
	}
	return float64(sum) * f.size / 1000
}

// fit is text, cut so that it is no wider than limit. Empty if nothing fits.
func (f font) fit(text string, limit float64) string {
	if f.width(text) <= limit {
		return text
	}
	runes := []rune(text)
	for n := len(runes) - 1; n > 0; n-- {
		if cut := strings.TrimRight(string(runes[:n]), " ,;.") + "…"; f.width(cut) <= limit {
			return cut
		}
	}
	return ""
}

// wrap is text in lines that are no wider than limit. What does not fit into so many lines is cut.
func (f font) wrap(text string, limit float64, lines int) []string {
	var all []string
	for words := strings.Fields(text); len(words) > 0; {
		if len(all) == lines-1 {
			return append(all, f.fit(strings.Join(words, " "), limit))
		}
		n := 1
		for n < len(words) && f.width(strings.Join(words[:n+1], " ")) <= limit {
			n++
		}
		all = append(all, f.fit(strings.Join(words[:n], " "), limit))
		words = words[n:]
	}
	return all
}

// widest is the width of the widest of texts.
func (f font) widest(texts ...string) float64 {
	w := 0.0
	for _, t := range texts {
		w = math.Max(w, f.width(t))
	}
	return w
}
