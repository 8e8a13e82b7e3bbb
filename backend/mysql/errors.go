package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/driver"
)

// Numbers of errors that are told apart. https://mariadb.com/kb/en/mariadb-error-code-reference/
const (
	errNoPrivilegeOnDatabase = 1044
	errNoPrivilegeOnTable    = 1142
	errNoTable               = 1146
	errRowLockWait           = 1205
	errDeadlock              = 1213
	errNoSuchThread          = 1094
	errNotOwner              = 1095
)

// answers are errors of the server that say what to do. Each was answered instead of an effect.
var answers = map[uint16]struct {
	class error
	text  string
}{
	1040:                     {driver.ErrUnavailable, "the server has no connection left: raise max_connections"},
	1203:                     {driver.ErrUnavailable, "the user has no connection left: raise max_user_connections"},
	1226:                     {driver.ErrUnavailable, "the user has used up what it may use: raise its limits"},
	1053:                     {driver.ErrUnavailable, "the server is shutting down"},
	errRowLockWait:           {driver.ErrUnavailable, "the table of fencing tokens is locked by somebody else (a backup, a transaction)"},
	errDeadlock:              {driver.ErrUnavailable, "the table of fencing tokens is being written by too many at once"},
	1114:                     {driver.ErrUnavailable, "the table of fencing tokens is full"},
	1021:                     {driver.ErrUnavailable, "the server's disk is full"},
	1045:                     {driver.ErrRefused, "the server does not know this user, or not with this password: check both"},
	1698:                     {driver.ErrRefused, "the server does not let this user in like that: check its name, password and authentication plugin"},
	errNoPrivilegeOnDatabase: {driver.ErrRefused, "the user may not use this database: grant it the privileges SELECT, INSERT, UPDATE, DELETE and CREATE on it"},
	1049:                     {driver.ErrRefused, "there is no such database: create it, or name another"},
	1130:                     {driver.ErrRefused, "the server does not let this host in: create a user for it"},
	1129:                     {driver.ErrRefused, "the server has blocked this host after errors: flush its hosts"},
	1820:                     {driver.ErrRefused, "the user's password has expired: set a new one"},
	1862:                     {driver.ErrRefused, "the user's password has expired: set a new one"},
	3118:                     {driver.ErrRefused, "the user's account is locked"},
	4151:                     {driver.ErrRefused, "the user's account is locked"},
	3159:                     {driver.ErrRefused, "the server wants TLS: set tls=true"},
	errNoPrivilegeOnTable: {driver.ErrRefused, "the user may not keep the table of fencing tokens: grant it SELECT, INSERT, UPDATE, DELETE " +
		"and CREATE on the database, or do without tokens"},
	1143:            {driver.ErrRefused, "the user may not use all columns of the table of fencing tokens: grant it the table"},
	1054:            {driver.ErrRefused, "the table of fencing tokens has other columns than ours: name another, or drop it"},
	errNoTable:      {driver.ErrRefused, "the table of fencing tokens is missing"},
	1290:            {driver.ErrRefused, "the server is read-only, as a replica is: use the primary"},
	1836:            {driver.ErrRefused, "the server is read-only, as a replica is: use the primary"},
	errNotOwner:     {driver.ErrRefused, "the user may not end this session: use one with the privilege CONNECTION ADMIN"},
	1227:            {driver.ErrRefused, "the user lacks a privilege"},
	1193:            {driver.ErrRefused, "the server does not have a variable that is needed: is it MariaDB or MySQL?"},
	1305:            {driver.ErrRefused, "the server does not have a function that is needed: is it MariaDB or MySQL?"},
	1064:            {driver.ErrRefused, "the server does not understand what is needed: is it MariaDB or MySQL?"},
	1251:            {driver.ErrRefused, "the server is too old for this client"},
	1235:            {driver.ErrRefused, "the server does not have what is needed: is it MariaDB or MySQL?"},
	errNoSuchThread: {driver.ErrLost, "the session has ended"},
}

// number is that of an error which the server answered; 0: it did not.
func number(err error) uint16 {
	var answer *gomysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

// refusals are errors of the client library after which there is no use in trying again.
var refusals = []error{
	gomysql.ErrNoTLS, gomysql.ErrCleartextPassword, gomysql.ErrNativePassword, gomysql.ErrOldPassword, gomysql.ErrUnknownPlugin,
	gomysql.ErrOldProtocol,
}

// classify puts an error of something that has had no effect into a class of the driver.
func classify(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrLost) {
		return err
	}
	if n := number(err); n != 0 {
		if a, ok := answers[n]; ok {
			return fmt.Errorf("%w: %s (%w)", a.class, a.text, oneLine{err})
		}
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, oneLine{err})
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return fmt.Errorf("%w: %w", driver.ErrRefused, oneLine{err})
		}
	}
	var unverified *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	if errors.As(err, &unverified) || errors.As(err, &header) || errors.As(err, &unknown) || errors.As(err, &host) {
		return fmt.Errorf("%w: TLS with the server fails (%w)", driver.ErrRefused, oneLine{err})
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: the server could not be asked in time: %w", driver.ErrUnavailable, ended)
	}
	return fmt.Errorf("%w: the server cannot be reached, is it running and is the address right? (%w)", driver.ErrUnavailable, oneLine{err})
}

// oneLine is an error whose text is one line.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }
