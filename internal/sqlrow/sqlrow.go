// Package sqlrow reads the answers of SQL servers.
package sqlrow

import (
	"cmp"
	"database/sql"
	"strconv"
)

// Row is one row of an answer.
type Row []sql.NullString

// Text is empty for NULL.
func (r Row) Text(column int) string { return r[column].String }

// Number is 0 if the column is not a number.
func (r Row) Number(column int) int64 {
	n, _ := strconv.ParseInt(r.Text(column), 10, 64)
	return n
}

// All reads rows to their end, where the server reports errors, and closes them. After an error the rows are incomplete.
func All(rows *sql.Rows) (all []Row, err error) {
	columns, err := rows.Columns()
	places := make([]any, len(columns))
	for err == nil && rows.Next() {
		row := make(Row, len(columns))
		for i := range row {
			places[i] = &row[i]
		}
		err = rows.Scan(places...)
		all = append(all, row)
	}
	return all, cmp.Or(err, rows.Err(), rows.Close())
}
