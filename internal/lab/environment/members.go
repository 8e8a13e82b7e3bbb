package environment

import (
	"context"
	"slices"
)

// members are the servers of one system, or one that stands alone.
type members[N member] struct {
	base
	all    []N
	system system[N] // nil: one alone
}

type member interface {
	comparable
	server
}

// system is what package servers offers of several servers together.
type system[N member] interface {
	Leader(ctx context.Context) (N, error)
	CutFromQuorum(i int)
	Heal()
	Close() error
}

func membersOf[N member](what string, s system[N], all ...N) members[N] {
	return members[N]{baseOf(what, all...), all, s}
}

// Members are the servers.
func (m *members[N]) Members() []N { return m.all }

// Close implements Servers.
func (m *members[N]) Close() error {
	if m.system != nil {
		return m.system.Close()
	}
	return m.base.Close()
}

// Leader implements Servers.
func (m *members[N]) Leader(ctx context.Context) (int, error) {
	if m.system == nil {
		return m.base.Leader(ctx)
	}
	leader, err := m.system.Leader(ctx)
	return slices.Index(m.all, leader), err
}

// CutFromQuorum cuts a member from the others.
func (m *members[N]) CutFromQuorum(i int) { m.system.CutFromQuorum(i) }

// Join ends all cuts.
func (m *members[N]) Join() {
	if m.system != nil {
		m.system.Heal()
	}
}

// Heal makes all members run, and reach each other.
func (m *members[N]) Heal(ctx context.Context) error {
	m.Join()
	return Revive(ctx, m.all...)
}
