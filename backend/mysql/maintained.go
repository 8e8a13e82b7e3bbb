package mysql

import (
	"time"

	"github.com/lockport/lockport/internal/examine"
)

// maintainedMySQL and maintainedMariaDB are until when lines of versions are maintained for everybody, by https://endoflife.date/mysql and
// https://endoflife.date/mariadb, which follow their makers.
var maintainedMySQL = []examine.Maintained{
	{From: examine.Version{8, 0}, Until: examine.EndOf(2026, time.April)},
	{From: examine.Version{8, 1}, Until: examine.EndOf(2024, time.April)}, // and 8.2, 8.3
	{From: examine.Version{8, 4}, Until: examine.EndOf(2032, time.April)},
	{From: examine.Version{9, 0}, Until: examine.EndOf(2026, time.January)}, // to 9.5
	{From: examine.Version{9, 6}},
}

var maintainedMariaDB = []examine.Maintained{
	{From: examine.Version{10, 5}, Until: examine.EndOf(2025, time.June)},
	{From: examine.Version{10, 6}, Until: examine.EndOf(2026, time.July)},
	{From: examine.Version{10, 7}, Until: examine.EndOf(2023, time.November)}, // to 10.10
	{From: examine.Version{10, 11}, Until: examine.EndOf(2028, time.February)},
	{From: examine.Version{11, 0}, Until: examine.EndOf(2024, time.November)}, // to 11.3
	{From: examine.Version{11, 4}, Until: examine.EndOf(2029, time.May)},
	{From: examine.Version{11, 5}, Until: examine.EndOf(2025, time.May)}, // to 11.7
	{From: examine.Version{11, 8}, Until: examine.EndOf(2028, time.June)},
	{From: examine.Version{12, 0}, Until: examine.EndOf(2026, time.May)}, // to 12.2
	{From: examine.Version{12, 3}},
}
